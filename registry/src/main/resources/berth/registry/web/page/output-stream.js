import {whileHidden} from './hidden-tab.js';

const LONGEST_PAUSE_MILLIS = 5_000;

/**
 * Reads the output of a run. The browser resumes a broken stream where it was; only when it gives up, because the registry
 * answered with an error, this begins anew from the last offset that was seen. So it does after a rest in a hidden tab.
 */
export class OutputStream {
  #url;
  #listener;
  #source = null;
  #retry = null;
  #failures = 0;
  #offset = null;
  #resting = false;
  #watchNoMore = null;

  /**
   * The listener has `output(data)`, `truncated(data)`, `exited(data)`, `failed(data)`, `opened()`, `waiting()` and
   * `resting()`.
   */
  constructor(server, run, listener) {
    this.#url = `api/servers/${encodeURIComponent(server)}/runs/${encodeURIComponent(run)}/output`;
    this.#listener = listener;
  }

  /** Begins at an offset, or near the end if that is null. */
  open(from) {
    this.close();
    this.#offset = from;
    this.#watchNoMore = whileHidden(() => this.#rest(), () => this.#seen());
    this.#connect();
  }

  close() {
    this.#watchNoMore?.();
    this.#watchNoMore = null;
    this.#resting = false;
    this.#disconnect();
  }

  #rest() {
    this.#resting = true;
    this.#disconnect();
    this.#listener.resting();
  }

  #seen() {
    if (this.#resting) {
      this.#resting = false;
      this.#connect();
    }
  }

  #disconnect() {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = null;
  }

  #connect() {
    const source = new EventSource(this.#offset === null ? this.#url : `${this.#url}?from=${this.#offset}`);
    this.#source = source;
    const on = (name, take) => source.addEventListener(name, (event) => {
      if (this.#source === source) {
        take(JSON.parse(event.data), event.lastEventId);
      }
    });
    source.addEventListener('open', () => {
      this.#failures = 0;
      this.#listener.opened();
    });
    on('output', (data, id) => {
      this.#offset = /^\d+$/.test(id) ? Number(id) : this.#offset;
      this.#listener.output(data);
    });
    on('truncated', (data) => this.#listener.truncated(data));
    on('exited', (data) => {
      this.close();
      this.#listener.exited(data);
    });
    on('failed', (data) => {
      if (!data.again) {
        this.close();
      }
      this.#listener.failed(data);
    });
    source.addEventListener('error', () => {
      if (this.#source !== source) {
        return;
      }
      this.#listener.waiting();
      if (source.readyState === EventSource.CLOSED) {
        const pause = Math.min(LONGEST_PAUSE_MILLIS, 500 * 2 ** this.#failures++);
        this.#retry = setTimeout(() => this.#connect(), pause);
      }
    });
  }
}
