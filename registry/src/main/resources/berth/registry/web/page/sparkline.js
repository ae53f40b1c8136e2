import {METRICS, SLOTS} from './timeline.js';

const SVG = 'http://www.w3.org/2000/svg';
const HEIGHT = 100;

/**
 * One metric of one GPU as a small line, the newest at the right edge, gaps where nothing is known.
 *
 * A path of SVG and not a canvas: browsers give every canvas a layer of its own, and a page with some hundred layers spends
 * more time on putting them together than on everything else. A path also takes its colour from the style sheet and its
 * size from its place, so that drawing never has to ask for either.
 */
export class Sparkline {
  element = document.createElementNS(SVG, 'svg');
  #metric;
  #stride;
  #line = null;
  #area = document.createElementNS(SVG, 'path');
  #drawn = '';

  /**
   * `stride`: how many slots become one point, for places that are only some pixels wide. `hasLine`: a line above the area.
   */
  constructor(metric, {stride = 1, hasLine = true} = {}) {
    this.#metric = METRICS.indexOf(metric);
    this.#stride = stride;
    this.element.setAttribute('class', 'spark');
    this.element.setAttribute('aria-hidden', 'true');
    this.element.setAttribute('viewBox', `0 0 ${Math.floor(SLOTS / stride) - 1} ${HEIGHT}`);
    this.element.setAttribute('preserveAspectRatio', 'none');
    this.#area.setAttribute('class', 'spark-area');
    this.element.append(this.#area);
    if (hasLine) {
      this.#line = document.createElementNS(SVG, 'path');
      this.#line.setAttribute('class', 'spark-line');
      this.element.append(this.#line);
    }
  }

  /** Draws the line; `top` is the value of the upper edge. */
  draw(timeline, top) {
    const {line, area} = this.#paths(timeline, top || 100);
    if (area !== this.#drawn) {
      this.#drawn = area;
      this.#area.setAttribute('d', area);
      this.#line?.setAttribute('d', line);
    }
  }

  #paths(timeline, top) {
    const points = Math.floor(SLOTS / this.#stride);
    let line = '';
    let area = '';
    let segment = '';
    let begin = 0;
    const endSegment = (end) => {
      if (segment !== '') {
        line += `M${segment}`;
        area += `M${segment}H${end}V${HEIGHT}H${begin}Z`;
        segment = '';
      }
    };
    for (let x = 0; x < points; x++) {
      const value = this.#highest(timeline, timeline.newestSlot - (points - 1 - x) * this.#stride);
      if (Number.isNaN(value)) {
        endSegment(x - 1);
        continue;
      }
      const y = Math.round((1 - Math.min(1, Math.max(0, value / top))) * HEIGHT);
      if (segment === '') {
        begin = x;
        segment = `${x} ${y}`;
      } else {
        segment += `L${x} ${y}`;
      }
    }
    endSegment(points - 1);
    return {line, area};
  }

  /** The highest value of a stride, so that no peak is lost; NaN if none is known. */
  #highest(timeline, lastSlot) {
    let highest = NaN;
    for (let slot = lastSlot; slot > lastSlot - this.#stride; slot--) {
      const value = timeline.at(this.#metric, slot);
      if (!(value <= highest) && !Number.isNaN(value)) {
        highest = value;
      }
    }
    return highest;
  }
}
