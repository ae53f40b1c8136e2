/** The keyboard: one letter each, `g` and a letter to go somewhere, and moving between cards and rows. */

const GO_MILLIS = 1_500;

export class Shortcuts {
  #actions;
  #goUntil = 0;

  /**
   * `actions`: `go(letter)`, which says whether that letter leads anywhere, `search()`, `help()`, `wall()`, `theme()`,
   * `density()`, `escape()`.
   */
  constructor(actions) {
    this.#actions = actions;
    document.addEventListener('keydown', (event) => this.#pressed(event));
  }

  #pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector('dialog[open]')) {
      return;
    }
    if (event.key === 'Escape') {
      this.#actions.escape();
      event.preventDefault();
      return;
    }
    if (event.target.closest('select')) {
      return;
    }
    if (event.target.closest('input, textarea')) {
      if (event.key === 'ArrowDown' || event.key === 'Enter') {
        this.#move(1, true);
        event.preventDefault();
      }
      return;
    }
    if (this.#act(event)) {
      event.preventDefault();
    }
  }

  #act({key, target}) {
    if (performance.now() < this.#goUntil) {
      this.#goUntil = 0;
      if (this.#actions.go(key)) {
        return true;
      }
    }
    // Arrows scroll what can be scrolled.
    const arrowsFree = !target.closest('#output');
    switch (key) {
      case 'g':
        this.#goUntil = performance.now() + GO_MILLIS;
        return true;
      case '/':
        this.#actions.search();
        return true;
      case '?':
        this.#actions.help();
        return true;
      case 'w':
        this.#actions.wall();
        return true;
      case 't':
        this.#actions.theme();
        return true;
      case 'd':
        this.#actions.density();
        return true;
      case 'j':
        return this.#move(1, true);
      case 'k':
        return this.#move(-1, true);
      case 'ArrowRight':
        return arrowsFree && this.#move(1, false);
      case 'ArrowLeft':
        return arrowsFree && this.#move(-1, false);
      case 'ArrowDown':
        return arrowsFree && this.#moveLine(1);
      case 'ArrowUp':
        return arrowsFree && this.#moveLine(-1);
      default:
        return false;
    }
  }

  /** To the next or the one before. Arrows do so only from where one is already; without that they scroll the page. */
  #move(by, fromAnywhere) {
    const all = openable();
    const current = all.indexOf(document.activeElement);
    if (all.length === 0 || (current < 0 && !fromAnywhere)) {
      return false;
    }
    const next = current < 0 ? firstInSight(all) : Math.min(all.length - 1, Math.max(0, current + by));
    focus(all[next]);
    return true;
  }

  /** To the nearest in the line of cards below or above. */
  #moveLine(by) {
    const all = openable();
    const current = all.indexOf(document.activeElement);
    if (current < 0) {
      return false;
    }
    const box = (link) => (link.closest('.card, tr') ?? link).getBoundingClientRect();
    const here = box(all[current]);
    let best = null;
    let bestDistance = Infinity;
    for (const link of all) {
      const there = box(link);
      const down = (there.top - here.top) * by;
      const distance = down + 3 * Math.abs(there.left - here.left);
      if (down > 4 && distance < bestDistance) {
        best = link;
        bestDistance = distance;
      }
    }
    if (best !== null) {
      focus(best);
    }
    return true;
  }
}

function openable() {
  return [...document.querySelectorAll('main [data-open]')];
}

function firstInSight(all) {
  const index = all.findIndex((link) => link.getBoundingClientRect().top >= 0);
  return Math.max(0, index);
}

function focus(link) {
  link.focus({preventScroll: true});
  (link.closest('.card, tr') ?? link).scrollIntoView({block: 'nearest'});
}
