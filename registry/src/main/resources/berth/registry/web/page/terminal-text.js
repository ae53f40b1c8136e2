/**
 * Turns what programs write for a terminal into lines: escape sequences are taken out, a carriage return goes back to the
 * start of the line, as progress bars need it. Keeps what a chunk cuts in two until the next one.
 */

/** A line that never ends is cut here: one element with megabytes of text would stop the browser. */
const LONGEST_LINE = 8_000;
/** An escape sequence longer than this is none. */
const LONGEST_ESCAPE = 4_096;

const CONTROL = /[\u0000-\u001f\u007f\u009b]/g;
/** CSI sequences, OSC strings up to their end, character sets, and what has two characters. */
const ESCAPE = new RegExp('^(?:' + [
  /(?:\u001b\[|\u009b)([0-?]*)[ -/]*([@-~])/,
  /\u001b[\]PX^_][^]*?(?:\u0007|\u001b\\)/,
  /\u001b[ #%()*+\-./][^]/,
  /\u001b[^[\]PX^_ #%()*+\-./]/,
].map((one) => one.source).join('|') + ')');

export class TerminalText {
  #line = '';
  #column = 0;
  #unfinished = '';
  #sink;

  /**
   * The sink has `write(text)`, which replaces the text of the open line and opens one if there is none, and `endLine()`.
   */
  constructor(sink) {
    this.#sink = sink;
  }

  push(chunk) {
    const text = this.#unfinished + chunk;
    this.#unfinished = '';
    let place = 0;
    while (place < text.length) {
      CONTROL.lastIndex = place;
      const found = CONTROL.exec(text);
      const end = found ? found.index : text.length;
      if (end > place) {
        this.#put(text.slice(place, end));
      }
      if (!found) {
        break;
      }
      const next = this.#control(text, end);
      if (next < 0) {
        this.#unfinished = text.slice(end);
        break;
      }
      place = next;
    }
    if (this.#line !== '') {
      this.#sink.write(this.#line);
    }
  }

  /** Handles the control character at `place`; returns where to go on, or -1 if the rest of it has not come yet. */
  #control(text, place) {
    switch (text[place]) {
      case '\n':
        this.#endLine();
        return place + 1;
      case '\r':
        this.#column = 0;
        return place + 1;
      case '\b':
        this.#column = Math.max(0, this.#column - 1);
        return place + 1;
      case '\t':
        this.#put(' '.repeat(8 - (this.#column % 8)));
        return place + 1;
      case '\u001b':
      case '\u009b':
        return this.#escape(text, place);
      default:
        return place + 1;
    }
  }

  #escape(text, place) {
    const candidate = text.slice(place, place + LONGEST_ESCAPE);
    const sequence = ESCAPE.exec(candidate);
    if (!sequence) {
      return candidate.length < LONGEST_ESCAPE ? -1 : place + 1;
    }
    // Progress bars erase the rest of the line before they write it anew.
    if (sequence[2] === 'K') {
      this.#line = sequence[1] === '2' ? '' : sequence[1] === '1' ? this.#line : this.#line.slice(0, this.#column);
    }
    return place + sequence[0].length;
  }

  #put(text) {
    const line = this.#line.padEnd(this.#column);
    this.#line = line.slice(0, this.#column) + text + line.slice(this.#column + text.length);
    this.#column += text.length;
    while (this.#line.length > LONGEST_LINE) {
      const rest = this.#line.slice(LONGEST_LINE);
      const column = this.#column - LONGEST_LINE;
      this.#line = this.#line.slice(0, LONGEST_LINE);
      this.#endLine();
      this.#line = rest;
      this.#column = Math.max(0, column);
    }
  }

  #endLine() {
    this.#sink.write(this.#line);
    this.#sink.endLine();
    this.#line = '';
    this.#column = 0;
  }
}
