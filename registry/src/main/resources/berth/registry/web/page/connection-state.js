import {setAttribute, setShown, setText} from './dom.js';
import {clockSeconds, roughly} from './words.js';

/** Says whether what is shown is of now: a small word in the header, and a banner while it is not. */
export class ConnectionState {
  #word;
  #banner;
  #since = Date.now();
  #state = 'connecting';

  constructor(word, banner) {
    this.#word = word;
    this.#banner = banner;
    this.show();
  }

  connected() {
    this.#state = 'connected';
    this.show();
  }

  /** `since`: when the last message came. The loss itself may be noticed much later, after a sleep for instance. */
  disconnected(since) {
    this.#since = since;
    this.#state = 'lost';
    this.show();
  }

  /** Nothing is asked for while nobody looks. */
  resting(since) {
    this.#since = since;
    this.#state = 'resting';
    this.show();
  }

  /** Also called each second: the banner says for how long. */
  show() {
    const isConnected = this.#state === 'connected';
    // In sight again, but the registry has not answered yet.
    const isLost = this.#state === 'lost' || (this.#state === 'resting' && !document.hidden);
    setAttribute(this.#word, 'data-connected', String(isConnected));
    setText(this.#word.querySelector('span'), isLost ? 'not connected'
      : {connecting: 'connecting', connected: 'live', resting: 'paused'}[this.#state]);
    document.body.toggleAttribute('data-stale', isLost || this.#state === 'resting');
    // This browser's clock on both sides: the registry's is not to be had right now.
    if (setShown(this.#banner, isLost)) {
      setText(this.#banner, `No connection to the registry since ${clockSeconds(this.#since)} `
        + `(${roughly(Date.now() - this.#since)}). What is shown is from then. Trying again.`);
    }
  }
}
