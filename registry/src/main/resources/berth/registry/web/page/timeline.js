/**
 * What one GPU did in the last five minutes: four rows of a fixed number of slots of two seconds each. The arrays are made
 * once and written round and round, so that a page that stays open for weeks needs as much memory as on its first day.
 */

export const METRICS = ['util', 'memory', 'temperature', 'power'];
export const SLOTS = 150;
export const SLOT_MILLIS = 2000;
/** Samples come each second; one that is older says nothing about now. */
const OLD_MILLIS = 10_000;
const NOTHING = new Float32Array(METRICS.length).fill(NaN);

export class Timeline {
  #values = new Float32Array(METRICS.length * SLOTS).fill(NaN);
  /** The number of the newest slot, counted from 1970; 0 before the first sample. */
  #newest = 0;
  #latest = new Float32Array(METRICS.length).fill(NaN);
  #sampledAt = -Infinity;

  get newestSlot() {
    return this.#newest;
  }

  /** Whether the newest sample is not of now any more, by the registry's clock as all times here. */
  isOld(now) {
    // A clock that was set back leaves samples in the future, which are as old as any.
    return Math.abs(now - this.#sampledAt) > OLD_MILLIS;
  }

  /** The newest sample in the order of METRICS; NaN where unknown, which an old sample is altogether. */
  latest(now) {
    return this.isOld(now) ? NOTHING : this.#latest;
  }

  /** Adds a sample of now: numbers or nulls in the order of METRICS. */
  add(time, sample) {
    const slot = Math.floor(time / SLOT_MILLIS);
    this.#moveTo(slot);
    this.#sampledAt = time;
    for (let metric = 0; metric < METRICS.length; metric++) {
      const value = sample[metric] ?? NaN;
      this.#latest[metric] = value;
      this.#values[metric * SLOTS + (slot % SLOTS)] = value;
    }
  }

  /** Fills in a value of the past. What was seen live is not overwritten. */
  addPast(time, metric, value) {
    const slot = Math.floor(time / SLOT_MILLIS);
    if (this.#newest === 0) {
      this.#moveTo(slot);
    }
    if (slot > this.#newest) {
      this.#moveTo(slot);
    }
    const place = metric * SLOTS + (slot % SLOTS);
    if (slot > this.#newest - SLOTS && Number.isNaN(this.#values[place])) {
      this.#values[place] = value ?? NaN;
    }
  }

  /** The value of a slot, NaN if unknown or out of reach. */
  at(metric, slot) {
    const isKept = this.#newest > 0 && slot <= this.#newest && slot > this.#newest - SLOTS;
    return isKept ? this.#values[metric * SLOTS + (slot % SLOTS)] : NaN;
  }

  #moveTo(slot) {
    // A clock that was set back far would leave a newest slot in the future, and nothing would ever be shown again.
    const backwards = slot <= this.#newest - SLOTS;
    if (backwards || slot - this.#newest >= SLOTS) {
      this.#values.fill(NaN);
    } else {
      for (let skipped = this.#newest + 1; skipped <= slot; skipped++) {
        for (let metric = 0; metric < METRICS.length; metric++) {
          this.#values[metric * SLOTS + (skipped % SLOTS)] = NaN;
        }
      }
    }
    if (backwards || slot > this.#newest) {
      this.#newest = slot;
    }
  }
}
