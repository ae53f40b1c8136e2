import {DENSITIES, densityFor} from './density.js';
import {element, setAttribute, setShown, setText} from './dom.js';
import {paintSoon} from './frames.js';
import {KeyedList} from './keyed-list.js';
import {ServerCard} from './server-card.js';
import {count} from './words.js';

/** Cards that are about to scroll into sight are made ready. */
const SIGHT_MARGIN = '240px 0px';

/** All servers as cards. */
export class Overview {
  #fleet;
  #past;
  #filter;
  #chosenDensity = null;
  #density = null;
  #cards;
  #grid = element('div', {class: 'cards'});
  #nothing = element('p', {class: 'nothing', hidden: true});
  #empty;
  #sight;
  #isOpen = false;
  #known = false;
  #matching = new Map();
  #stale = new Set();

  /** `past` is asked for the past of what comes into sight. */
  constructor(fleet, past) {
    this.#fleet = fleet;
    this.#past = past;
    this.#empty = element('div', {class: 'empty', hidden: true},
      element('h2', {}, 'No server is registered yet'),
      element('p', {}, 'On a GPU server:'),
      element('pre', {}, `berthd --registry ${location.hostname}`),
      element('p', {}, 'It appears here by itself, a few seconds later.'));
    this.element = element('div', {class: 'overview'}, this.#empty, this.#nothing, this.#grid);
    this.#sight = new IntersectionObserver((entries) => this.#sighted(entries), {rootMargin: SIGHT_MARGIN});
    this.#newCards();
  }

  open(route, filter) {
    this.#isOpen = true;
    this.#filter = filter;
    this.paint();
  }

  close() {
    this.#isOpen = false;
    // Nothing is kept of cards that nobody sees: five hundred of them would be kept for nothing.
    this.#newCards();
  }

  filterChanged(filter) {
    this.#filter = filter;
    paintSoon(this);
  }

  /** Chooses a density by name, or null for what suits the number of GPUs. */
  setDensity(density) {
    this.#chosenDensity = density;
    if (this.#isOpen) {
      this.paint();
    }
  }

  /** The chosen density, null if it is automatic. */
  get chosenDensity() {
    return this.#chosenDensity;
  }

  /** The next density that somebody can choose: each of them, then automatic again. */
  nextDensity() {
    const choices = [null, ...DENSITIES];
    this.setDensity(choices[(choices.indexOf(this.#chosenDensity) + 1) % choices.length]);
    return this.#chosenDensity;
  }

  serversChanged(names) {
    this.#known = true;
    if (!this.#isOpen) {
      return;
    }
    for (const name of names) {
      this.#stale.add(name);
    }
    paintSoon(this);
  }

  sampled(names) {
    for (const name of names) {
      this.#cards.get(name)?.repaint();
    }
  }

  pastLoaded(name) {
    this.#cards.get(name)?.repaint();
  }

  /** After the past was forgotten, what is in sight wants it again. */
  wantPast() {
    for (const [name] of this.#matching) {
      if (this.#cards.get(name)?.inSight) {
        this.#past.want(name);
      }
    }
  }

  tick() {
    for (const card of this.#cards.values()) {
      card.tick();
    }
  }

  /** Which cards there are; what is in them is their own matter. */
  paint() {
    if (!this.#isOpen) {
      return;
    }
    const before = this.#matching;
    this.#matching = new Map();
    let gpus = 0;
    for (const entry of this.#fleet.all()) {
      const matching = this.#filter.gpusOf(entry.server);
      if (matching !== null) {
        this.#matching.set(entry.name, matching);
        gpus += entry.server.gpus.length;
      }
    }
    const density = this.#chosenDensity ?? densityFor(gpus, this.#matching.size);
    if (density !== this.#density) {
      this.#density = density;
      this.#newCards();
      setAttribute(this.element, 'data-density', density);
    }
    this.#cards.show(this.#matching.keys());
    for (const [name, matching] of this.#matching) {
      if (this.#stale.has(name) || before.get(name) !== matching) {
        const card = this.#cards.get(name);
        card.changed(this.#fleet.get(name), matching);
        if (card.inSight) {
          // It may have come back by now.
          this.#past.want(name);
        }
      }
    }
    this.#stale.clear();
    setShown(this.#empty, this.#known && this.#fleet.size === 0);
    if (setShown(this.#nothing, this.#fleet.size > 0 && this.#matching.size === 0)) {
      setText(this.#nothing,
        `None of ${count(this.#fleet.size, 'server')} matches “${this.#filter.text}”. Esc clears the filter.`);
    }
  }

  #newCards() {
    this.#cards?.show([]);
    this.#sight.disconnect();
    this.#cards = new KeyedList(this.#grid, (name) => {
      const card = new ServerCard(this.#fleet.get(name), this.#density);
      this.#sight.observe(card.element);
      this.#stale.add(name);
      return card;
    });
  }

  #sighted(entries) {
    for (const {target, isIntersecting} of entries) {
      const name = target.dataset.server;
      const card = this.#cards.get(name);
      if (card?.element !== target) {
        this.#sight.unobserve(target);
        continue;
      }
      card.setInSight(isIntersecting);
      if (isIntersecting) {
        this.#past.want(name);
      } else {
        this.#past.wantNoMore(name);
      }
    }
  }
}
