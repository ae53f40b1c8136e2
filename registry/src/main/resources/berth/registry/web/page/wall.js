import {setProperty} from './dom.js';

/** What is tried until everything fits on the screen, from well readable across a room to what only just is. */
const FITS = [
  {density: 'full', size: 24}, {density: 'full', size: 20}, {density: 'full', size: 17},
  {density: 'rows', size: 20}, {density: 'rows', size: 17}, {density: 'rows', size: 15},
  {density: 'tiles', size: 24}, {density: 'tiles', size: 20}, {density: 'tiles', size: 17}, {density: 'tiles', size: 14},
  {density: 'tiles', size: 12},
];
/** On a phone all is scrolled anyway, and large type would leave room for nothing else. */
const PHONE_FITS = [{density: null, size: 16}];
const PAGE_MILLIS = 12_000;
const SETTLE_MILLIS = 120;

/**
 * The page on a screen that nobody scrolls: type as large as lets all servers fit, and if they cannot, one screen after the
 * other.
 */
export class Wall {
  #overview;
  #isOn = false;
  #fit = 0;
  #densityBefore = null;
  #timer = null;
  #pageTurned = 0;
  #awake = null;

  constructor(overview) {
    this.#overview = overview;
    window.addEventListener('resize', () => this.refit());
    document.addEventListener('visibilitychange', () => this.#stayAwake());
  }

  set(isOn) {
    if (this.#isOn === isOn) {
      return;
    }
    this.#isOn = isOn;
    document.body.toggleAttribute('data-wall', isOn);
    this.#stayAwake();
    if (isOn) {
      this.#densityBefore = this.#overview.chosenDensity;
      this.refit();
    } else {
      clearTimeout(this.#timer);
      document.documentElement.style.removeProperty('--type-size');
      this.#overview.setDensity(this.#densityBefore);
    }
  }

  /** Begins with the largest again: other servers, or another screen. */
  refit() {
    if (this.#isOn) {
      this.#fit = 0;
      this.#apply();
    }
  }

  #apply() {
    const {density, size} = this.#fits()[this.#fit];
    setProperty(document.documentElement, '--type-size', `${size}px`);
    this.#overview.setDensity(density);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#check(), SETTLE_MILLIS);
  }

  #check() {
    const {scrollHeight, clientHeight, scrollTop} = document.documentElement;
    if (scrollHeight > clientHeight + 2) {
      if (this.#fit < this.#fits().length - 1) {
        this.#fit++;
        this.#apply();
        return;
      }
      this.#turnPage(scrollTop, clientHeight, scrollHeight);
    }
    this.#timer = setTimeout(() => this.#check(), 2000);
  }

  #fits() {
    return window.innerWidth < 700 ? PHONE_FITS : FITS;
  }

  #turnPage(top, height, end) {
    const isPhone = this.#fits() === PHONE_FITS;
    if (!isPhone && performance.now() - this.#pageTurned > PAGE_MILLIS) {
      this.#pageTurned = performance.now();
      const next = top + height >= end - 2 ? 0 : top + height * 0.9;
      window.scrollTo({top: next, behavior: 'auto'});
    }
  }

  /** Asks the screen not to switch itself off, where browsers let pages ask. */
  async #stayAwake() {
    try {
      if (this.#isOn && !document.hidden) {
        this.#awake = await navigator.wakeLock?.request('screen');
      } else {
        await this.#awake?.release();
        this.#awake = null;
      }
    } catch {
      // Only a convenience.
    }
  }
}
