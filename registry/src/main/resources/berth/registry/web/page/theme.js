const KEY = 'berth.theme';
const CHOICES = ['auto', 'light', 'dark'];

/** Light, dark, or what the system says; remembered in this browser. */
export class Theme {
  #choice;
  #onChange;

  /** Calls `onChange(choice)` with the choice of the past and with each new one. */
  constructor(onChange) {
    this.#onChange = onChange;
    const remembered = read();
    this.#choice = CHOICES.includes(remembered) ? remembered : 'auto';
    this.#apply();
  }

  /** Goes on to the next choice. */
  next() {
    this.#choice = CHOICES[(CHOICES.indexOf(this.#choice) + 1) % CHOICES.length];
    try {
      localStorage.setItem(KEY, this.#choice);
    } catch {
      // A browser without storage forgets the choice; that is no reason to refuse it.
    }
    this.#apply();
  }

  #apply() {
    document.documentElement.dataset.theme = this.#choice;
    this.#onChange(this.#choice);
  }
}

function read() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}
