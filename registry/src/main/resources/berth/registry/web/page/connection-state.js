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

  disconnected() {
    if (this.#state !== 'lost') {
      this.#since = Date.now();
      this.#state = 'lost';
    }
    this.show();
  }

  /** Also called each second: the banner says for how long. */
  show() {
    const isConnected = this.#state === 'connected';
    setAttribute(this.#word, 'data-connected', String(isConnected));
    setText(this.#word.querySelector('span'),
      {connecting: 'connecting', connected: 'live', lost: 'not connected'}[this.#state]);
    document.body.toggleAttribute('data-stale', this.#state === 'lost');
    // This browser's clock on both sides: the registry's is not to be had right now.
    if (setShown(this.#banner, this.#state === 'lost')) {
      setText(this.#banner, `No connection to the registry since ${clockSeconds(this.#since)} `
        + `(${roughly(Date.now() - this.#since)}). What is shown is from then. Trying again.`);
    }
  }
}
