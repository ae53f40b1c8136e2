import {lastSaid} from './clock.js';
import {METRICS} from './timeline.js';

/** Few at a time: scrolling through 500 servers must not take all connections that the browser has for this host. */
const AT_ONCE = 2;

/** Fetches what GPUs did before the page was opened, for servers that somebody looks at, once per connection. */
export class PastSamples {
  #fleet;
  #onLoaded;
  #known = new Set();
  #wanted = new Map();
  #running = 0;

  /** Calls `onLoaded(name)` when time lines of that server have got their past. */
  constructor(fleet, onLoaded) {
    this.#fleet = fleet;
    this.#onLoaded = onLoaded;
  }

  want(name) {
    if (!this.#isUp(name)) {
      // Nobody would answer; once it is back there is a gap to fill.
      this.#known.delete(name);
    } else if (!this.#known.has(name)) {
      this.#wanted.set(name, true);
      this.#next();
    }
  }

  /** It went out of sight; its past can wait. */
  wantNoMore(name) {
    this.#wanted.delete(name);
  }

  /** After a lost connection there are gaps that the registry can fill. */
  forget() {
    this.#known.clear();
  }

  #next() {
    // The newest wish first: it is what is in sight now.
    while (this.#running < AT_ONCE && this.#wanted.size > 0) {
      const name = [...this.#wanted.keys()].at(-1);
      this.#wanted.delete(name);
      if (!this.#isUp(name)) {
        continue;
      }
      this.#known.add(name);
      this.#running++;
      this.#load(name).finally(() => {
        this.#running--;
        this.#next();
      });
    }
  }

  #isUp(name) {
    return this.#fleet.get(name)?.isUp === true;
  }

  async #load(name) {
    try {
      const response = await fetch(`api/servers/${encodeURIComponent(name)}/history`, {cache: 'no-store'});
      if (!response.ok) {
        return;
      }
      this.#fill(name, await response.json());
      this.#onLoaded(name);
    } catch {
      // Lines then begin with the first sample that was seen live.
    }
  }

  #fill(name, past) {
    const entry = this.#fleet.get(name);
    // Whatever clock it was stamped with: no past may move the lines to where the samples of now are yet to come.
    const end = Math.min(past.end, lastSaid());
    for (const gpu of past.gpus) {
      const timeline = entry?.timelineOf(gpu.uuid);
      METRICS.forEach((metric, row) => {
        const values = gpu[metric] ?? [];
        values.forEach((value, index) => timeline?.addPast(
          end - (values.length - 1 - index) * past.stepSeconds * 1000, row, value));
      });
    }
  }
}
