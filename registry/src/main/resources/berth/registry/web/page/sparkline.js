import {palette} from './palette.js';
import {METRICS, SLOTS} from './timeline.js';

/**
 * Draws one metric of a time line into a box of a canvas: the newest at the right edge, gaps where nothing is known.
 * `top` is the value of the upper edge; `ink` has a colour, and how much of it the line and the area below it get.
 */
export function drawTimeline(context, box, timeline, metric, top, {colour, line, area}) {
  const newest = timeline.newestSlot;
  // Never more than one point per pixel: a wider stride shows the highest of its values, so that no peak is lost.
  const stride = Math.max(1, Math.ceil(SLOTS / Math.max(1, box.width)));
  const points = Math.floor(SLOTS / stride);
  const step = box.width / Math.max(1, points - 1);
  const bottom = box.y + box.height;
  context.beginPath();
  let begun = -1;
  let x = 0;
  const segments = [];
  for (let point = 0; point < points; point++) {
    let value = NaN;
    for (let inner = 0; inner < stride; inner++) {
      const one = timeline.at(metric, newest - (points - 1 - point) * stride - inner);
      if (!(one <= value)) {
        value = Number.isNaN(one) ? value : one;
      }
    }
    if (Number.isNaN(value)) {
      if (begun >= 0) {
        segments.push(begun, x);
      }
      begun = -1;
      continue;
    }
    x = box.x + point * step;
    const y = bottom - Math.min(1, Math.max(0, value / top)) * (box.height - 1) - 0.5;
    if (begun < 0) {
      begun = x;
      context.moveTo(x, y);
    } else {
      context.lineTo(x, y);
    }
  }
  if (begun >= 0) {
    segments.push(begun, x);
  }
  context.globalAlpha = line;
  context.strokeStyle = colour;
  context.lineWidth = 1.25;
  context.lineJoin = 'round';
  context.stroke();
  // With gaps there would be several areas; the line alone shows them well enough.
  if (segments.length === 2) {
    context.lineTo(segments[1], bottom);
    context.lineTo(segments[0], bottom);
    context.closePath();
    context.globalAlpha = area;
    context.fillStyle = colour;
    context.fill();
  }
  context.globalAlpha = 1;
}

/** A canvas that keeps the size of its place on the page, without ever asking for it while drawing. */
export class Surface {
  canvas = document.createElement('canvas');
  width = 0;
  height = 0;
  #context = null;
  #onSize;
  #stale = true;

  /** Calls `onSize()` when there is something to draw on, or it got another size. */
  constructor(onSize) {
    this.canvas.setAttribute('aria-hidden', 'true');
    this.#onSize = onSize;
    surfaces.set(this.canvas, this);
  }

  /** Begins to follow the size of its place. */
  attach() {
    sizes.observe(this.canvas);
  }

  /** Gives the memory of its pixels back until it is attached again. */
  detach() {
    sizes.unobserve(this.canvas);
    this.canvas.width = 0;
    this.canvas.height = 0;
    this.width = 0;
    this.height = 0;
  }

  /** The context, empty and scaled to CSS pixels; null while the canvas has no size. */
  begin() {
    if (this.width === 0 || this.height === 0) {
      return null;
    }
    const scale = Math.min(2, window.devicePixelRatio || 1);
    this.#context ??= this.canvas.getContext('2d');
    if (this.#stale) {
      this.canvas.width = Math.round(this.width * scale);
      this.canvas.height = Math.round(this.height * scale);
      this.#stale = false;
    }
    this.#context.setTransform(scale, 0, 0, scale, 0, 0);
    this.#context.clearRect(0, 0, this.width, this.height);
    return this.#context;
  }

  resized(width, height) {
    this.width = width;
    this.height = height;
    this.#stale = true;
    if (width > 0 && height > 0) {
      this.#onSize();
    }
  }
}

const surfaces = new WeakMap();
const sizes = new ResizeObserver((entries) => {
  for (const {target, contentRect} of entries) {
    surfaces.get(target)?.resized(contentRect.width, contentRect.height);
  }
});

/** One metric of one GPU as a small line. */
export class Sparkline {
  #surface;
  #metric;

  constructor(metric, onSize) {
    this.#metric = METRICS.indexOf(metric);
    this.#surface = new Surface(onSize);
  }

  get canvas() {
    return this.#surface.canvas;
  }

  attach() {
    this.#surface.attach();
  }

  detach() {
    this.#surface.detach();
  }

  /** Draws the line up to `top`; grey if it is not of now. */
  draw(timeline, top, isOld) {
    const context = this.#surface.begin();
    if (context === null) {
      return;
    }
    const {width, height} = this.#surface;
    context.fillStyle = palette.rule;
    context.fillRect(0, height - 1, width, 1);
    const colour = isOld ? palette.old : palette.metric[METRICS[this.#metric]];
    drawTimeline(context, {x: 0, y: 1, width, height: height - 1}, timeline, this.#metric, top || 100,
      {colour, line: 1, area: 0.16});
  }
}
