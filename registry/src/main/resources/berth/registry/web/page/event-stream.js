/**
 * Cuts a stream of server-sent events into events. The browser's EventSource would do it too, but it hides the comment
 * lines that the registry sends as a heart beat: a page without any server would look dead to the watch-dog.
 */
export class EventStreamParser {
  /** What came of the event that is not complete yet. Joined once: a list of 500 servers comes in hundreds of pieces. */
  #pieces = [];
  #endsWithNewline = false;
  #onEvent;

  /** Calls `onEvent(name, data)` for each event, with the data as a string. */
  constructor(onEvent) {
    this.#onEvent = onEvent;
  }

  push(text) {
    let begin = 0;
    if (this.#endsWithNewline && text.startsWith('\n')) {
      begin = 1;
      this.#complete();
    }
    for (let end = text.indexOf('\n\n', begin); end >= 0; end = text.indexOf('\n\n', begin)) {
      this.#pieces.push(text.slice(begin, end));
      begin = end + 2;
      this.#complete();
    }
    if (begin < text.length) {
      this.#pieces.push(begin === 0 ? text : text.slice(begin));
      this.#endsWithNewline = text.endsWith('\n');
    }
  }

  #complete() {
    const block = this.#pieces.join('');
    this.#pieces = [];
    this.#endsWithNewline = false;
    let name = 'message';
    const data = [];
    for (const line of block.split('\n')) {
      if (line.startsWith('data:')) {
        data.push(line.slice(line[5] === ' ' ? 6 : 5));
      } else if (line.startsWith('event:')) {
        name = line.slice(6).trim();
      }
    }
    if (data.length > 0) {
      this.#onEvent(name, data.join('\n'));
    }
  }
}
