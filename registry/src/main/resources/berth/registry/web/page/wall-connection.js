import {EventStreamParser} from './event-stream.js';
import {whileHidden} from './hidden-tab.js';

const LONGEST_PAUSE_MILLIS = 5_000;
const SILENCE_MILLIS = 25_000;

/**
 * Keeps a stream of `/api/wall` open for as long as the page lives: reconnects with growing pauses, takes a long silence
 * for a lost connection, and rests while the tab is hidden.
 */
export class WallConnection {
  #listener;
  #failures = 0;
  #abort = null;
  #retry = null;
  #watchdog = null;
  #resting = false;
  /** When anything came, by this browser's clock: what is shown is from then. */
  #heardAt = Date.now();

  /**
   * The listener has `connected()`, `event(name, data)`, `disconnected(since)`, which is called once per loss, and
   * `resting(since)`.
   */
  constructor(listener) {
    this.#listener = listener;
  }

  open() {
    whileHidden(() => this.#rest(), () => this.#seen());
    window.addEventListener('online', () => this.#connectNow());
    this.#connect();
  }

  async #connect() {
    clearTimeout(this.#retry);
    this.#retry = null;
    const abort = new AbortController();
    this.#abort = abort;
    this.#expectSomething();
    try {
      const response = await fetch('api/wall', {
        headers: {Accept: 'text/event-stream'}, cache: 'no-store', signal: abort.signal});
      if (!response.ok || !response.body) {
        throw new Error(`the registry answered ${response.status}`);
      }
      await this.#read(response.body);
    } catch (failure) {
      // Why it broke makes no difference here: the page says since when, and tries again.
    }
    if (this.#abort === abort) {
      this.#lost();
    }
  }

  async #read(body) {
    const parser = new EventStreamParser((name, data) => {
      if (name === 'hello') {
        this.#failures = 0;
        this.#listener.connected();
      }
      this.#listener.event(name, JSON.parse(data));
    });
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const {done, value} = await reader.read();
      if (done) {
        return;
      }
      this.#heardAt = Date.now();
      this.#expectSomething();
      parser.push(value);
    }
  }

  #expectSomething() {
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => this.#abort?.abort(), SILENCE_MILLIS);
  }

  #lost() {
    this.#abort = null;
    clearTimeout(this.#watchdog);
    if (this.#resting) {
      return;
    }
    this.#listener.disconnected(this.#heardAt);
    const pause = Math.min(LONGEST_PAUSE_MILLIS, 250 * 2 ** this.#failures++);
    // Some chance in it, so that a restarted registry does not meet all pages in the same moment.
    this.#retry = setTimeout(() => this.#connect(), pause * (0.7 + 0.3 * Math.random()));
  }

  #connectNow() {
    if (this.#retry !== null) {
      this.#connect();
    }
  }

  #rest() {
    this.#resting = true;
    clearTimeout(this.#retry);
    this.#retry = null;
    this.#abort?.abort();
    this.#listener.resting(this.#heardAt);
  }

  #seen() {
    if (this.#resting) {
      this.#resting = false;
      this.#connect();
    } else {
      this.#connectNow();
    }
  }
}
