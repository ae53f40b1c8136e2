import {element, setShown, setText} from './dom.js';
import {paintSoon} from './frames.js';
import {TerminalText} from './terminal-text.js';
import {bytes} from './words.js';

const MOST_LINES = 5_000;
const MOST_CHARACTERS = 1_000_000;
/** So near to the end counts as being at the end. */
const END_PIXELS = 24;

/**
 * Shows output as it comes. Follows the end until somebody scrolls up, and keeps only the last lines: output may go on for
 * days.
 */
export class OutputPane {
  #streams = {};
  #pending = [];
  #pendingCharacters = 0;
  #characters = 0;
  #follows = true;
  #dropped = false;
  #trimmed = element('p', {class: 'output-note', hidden: true});
  #lines = element('div', {id: 'output', class: 'output', role: 'log', tabindex: '0', 'aria-label': 'Output',
    'aria-live': 'off'});
  #status = element('span', {class: 'output-status', role: 'status'});
  #follow = element('button', {class: 'follow', type: 'button', hidden: true}, 'Follow ↓');
  #fromStart = element('button', {class: 'quiet', type: 'button', hidden: true}, 'Show from the beginning');
  #title = element('h2', {}, 'Output');

  constructor(onFromStart) {
    this.element = element('section', {class: 'output-pane', 'aria-label': 'Output of the run'},
      element('header', {class: 'output-head'}, this.#title, this.#status, this.#fromStart),
      this.#trimmed, this.#lines, this.#follow);
    this.#lines.addEventListener('scroll', () => this.#scrolled(), {passive: true});
    this.#follow.addEventListener('click', () => this.#followAgain());
    this.#fromStart.addEventListener('click', onFromStart);
    this.clear();
  }

  clear() {
    this.#streams = {out: this.#stream('out'), err: this.#stream('err')};
    this.#pending = [];
    this.#pendingCharacters = 0;
    this.#characters = 0;
    this.#dropped = false;
    this.#lines.replaceChildren();
    this.#followAgain();
    setShown(this.#trimmed, false);
    setShown(this.#fromStart, false);
    this.say('');
  }

  addToHead(node) {
    this.#title.after(node);
  }

  say(text) {
    setText(this.#status, text);
  }

  /** Says that output before what is shown exists. */
  beginsAt(offset) {
    if (setShown(this.#trimmed, offset > 0)) {
      setText(this.#trimmed, `${bytes(offset)} before this are not shown.`);
      setShown(this.#fromStart, true);
    }
  }

  add(stream, text) {
    this.#pending.push({stream, text});
    this.#pendingCharacters += text.length;
    // A hidden tab gets no frames; what would be dropped from the top anyway need not wait for one.
    while (this.#pendingCharacters > MOST_CHARACTERS && this.#pending.length > 1) {
      this.#pendingCharacters -= this.#pending.shift().text.length;
      this.#dropped = true;
    }
    paintSoon(this);
  }

  paint() {
    const pending = this.#pending;
    this.#pending = [];
    this.#pendingCharacters = 0;
    for (const {stream, text} of pending) {
      (this.#streams[stream] ?? this.#streams.out).terminal.push(text);
    }
    Object.values(this.#streams).forEach((stream) => stream.flush());
    while (this.#lines.childElementCount > 1
        && (this.#lines.childElementCount > MOST_LINES || this.#characters > MOST_CHARACTERS)) {
      const oldest = this.#lines.firstElementChild;
      this.#characters -= oldest.textContent.length;
      oldest.remove();
      this.#dropped = true;
    }
    if (this.#dropped && setShown(this.#trimmed, true)) {
      setText(this.#trimmed, 'Only the last lines are shown; berth logs has all of them.');
    }
    if (this.#follows) {
      this.#lines.scrollTop = this.#lines.scrollHeight;
    }
  }

  /** Lines of one stream: each stream goes on with its own open line, whatever the other wrote meanwhile. */
  #stream(name) {
    let open = null;
    let text = '';
    const flush = () => {
      if (open !== null && open.textContent !== text) {
        this.#characters += text.length - open.textContent.length;
        open.textContent = text;
      }
    };
    const sink = {
      write: (line) => {
        if (open === null || !open.isConnected) {
          open = element('div', {class: 'line', 'data-stream': name});
          this.#lines.append(open);
        }
        text = line;
      },
      endLine: () => {
        flush();
        open = null;
        text = '';
      },
    };
    return {terminal: new TerminalText(sink), flush};
  }

  #scrolled() {
    const {scrollTop, scrollHeight, clientHeight} = this.#lines;
    this.#follows = scrollHeight - scrollTop - clientHeight < END_PIXELS;
    setShown(this.#follow, !this.#follows);
  }

  #followAgain() {
    this.#follows = true;
    setShown(this.#follow, false);
    this.#lines.scrollTop = this.#lines.scrollHeight;
  }
}
