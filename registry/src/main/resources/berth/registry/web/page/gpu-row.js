import {now} from './clock.js';
import {element, setAttribute, setShown, setText} from './dom.js';
import {healthSentence, stateWord, strangerSentence} from './gpu-words.js';
import {icon, setIcon} from './icons.js';
import {routeTo} from './route.js';
import {runTitle} from './run-words.js';
import {Sparkline} from './sparkline.js';
import {shortModel} from './server-words.js';
import {duration, gibibytes, moment, whole, wholeGibibytes} from './words.js';

const METERS = [
  {metric: 'util', name: 'util', unit: '%', top: () => 100, text: (value) => whole(value), limit: () => ''},
  {metric: 'memory', name: 'memory', unit: 'GiB', top: (gpu) => gpu.memoryTotal, text: (value) => gibibytes(value),
    limit: (gpu) => `/ ${wholeGibibytes(gpu.memoryTotal)}`},
  {metric: 'temperature', name: 'temp', unit: '°C', top: () => 100, text: (value) => whole(value), limit: () => ''},
  {metric: 'power', name: 'power', unit: 'W', top: (gpu) => gpu.powerLimit, text: (value) => whole(value),
    limit: (gpu) => gpu.powerLimit === null ? '' : `/ ${whole(gpu.powerLimit)}`},
];
/** From here GPUs slow themselves down. */
const HOT_CELSIUS = 85;

/** One GPU as a row: state, four meters with their time lines, and who has it. */
export class GpuRow {
  #icon = icon('free');
  #index = element('span', {class: 'gpu-index'});
  #state = element('span', {class: 'gpu-state'});
  #model = element('span', {class: 'gpu-model'});
  #meters;
  #who = element('div', {class: 'gpu-who'});
  #times = [];
  #shown = null;
  #shownServer = null;

  constructor() {
    this.#meters = METERS.map((meter) => {
      const line = new Sparkline(meter.metric);
      const value = element('span', {class: 'meter-value'});
      const of = element('span', {class: 'meter-of'});
      return {...meter, line, value, of, element: element('div', {class: 'meter', 'data-metric': meter.metric},
        element('span', {class: 'meter-number'}, value, of, element('span', {class: 'meter-unit'}, meter.unit)),
        line.element)};
    });
    this.element = element('li', {class: 'gpu'},
      element('div', {class: 'gpu-head'}, this.#icon, this.#index, this.#state, this.#model),
      ...this.#meters.map((meter) => meter.element),
      this.#who);
  }

  /** Brings everything up to date. `isLive`: the server reports right now. */
  paint(server, gpu, timeline, {isLive, isDimmed, showsModel}) {
    if (this.#shown !== gpu || this.#shownServer !== server.name) {
      this.#shown = gpu;
      this.#shownServer = server.name;
      this.#describe(server, gpu);
    }
    setAttribute(this.element, 'data-dimmed', isDimmed);
    setShown(this.#model, showsModel);
    for (const {at, write, node} of this.#times) {
      setText(node, write(at));
    }
    const latest = timeline.latest(now());
    setAttribute(this.element, 'data-old', timeline.isOld(now()));
    this.#meters.forEach((meter, metric) => {
      setText(meter.value, meter.text(isLive ? latest[metric] : NaN));
      setText(meter.of, meter.limit(gpu));
      meter.line.draw(timeline, meter.top(gpu));
    });
    setAttribute(this.#meters[2].element, 'data-hot', isLive && latest[2] >= HOT_CELSIUS);
  }

  #describe(server, gpu) {
    setAttribute(this.element, 'data-gpu', gpu.uuid);
    setAttribute(this.element, 'data-state', gpu.state);
    setAttribute(this.element, 'data-health', gpu.health);
    setIcon(this.#icon, gpu.state);
    setText(this.#index, String(gpu.index));
    setText(this.#state, stateWord(gpu));
    setText(this.#model, shortModel(gpu.model));
    this.#times = [];
    this.#who.replaceChildren(...this.#sentences(server, gpu));
    // A narrow row shows the beginning only; all of it is in the tooltip.
    setAttribute(this.#who, 'title', this.#who.textContent || null);
  }

  #sentences(server, gpu) {
    const sentences = [];
    const health = healthSentence(gpu);
    if (health) {
      sentences.push(element('span', {class: 'who-health'}, health));
    }
    if (gpu.holder) {
      sentences.push(...this.#holder(server, gpu.holder));
    }
    if (gpu.lockedBy && !gpu.holder) {
      sentences.push(element('span', {class: 'who-locked'}, `lock file of ${gpu.lockedBy}`));
    }
    for (const stranger of gpu.strangers) {
      sentences.push(element('span', {class: 'who-stranger'}, `not reserved: ${strangerSentence(stranger)}`));
    }
    return sentences.flatMap((sentence, index) => index === 0 ? [sentence] : [' ', sentence]);
  }

  #holder(server, holder) {
    const host = holder.user && holder.host ? element('span', {class: 'who-host'}, `@${holder.host}`) : null;
    const parts = [element('span', {class: 'who-name'},
      element('b', {class: 'who-user'}, holder.user || holder.host || 'unknown'), host)];
    if (holder.purpose) {
      parts.push(element('span', {class: 'who-purpose'}, holder.purpose));
    }
    for (const run of holder.runs ?? []) {
      const known = server.runs.find((one) => one.id === run);
      // The name of a run that has one is the purpose already.
      const title = !known || known.name ? run : runTitle(known);
      parts.push(element('a', {class: 'who-run', href: routeTo('run', [server.name, run]), title: run}, title));
    }
    if (holder.since !== null) {
      parts.push(this.#time(holder.since, (at) => `for ${duration(now() - at)}`, `since ${moment(holder.since)}`));
    }
    if (holder.until !== null) {
      parts.push(this.#time(holder.until, (at) => at > now() ? `${duration(at - now())} left` : 'ends now',
        `until ${moment(holder.until)}`));
    }
    if (holder.heldBack) {
      parts.push(element('span', {class: 'who-held'}, `held back: ${holder.heldBack}`));
    }
    return parts;
  }

  /** A text that changes as time goes by. */
  #time(at, write, title) {
    const node = element('time', {class: 'who-time', datetime: new Date(at).toISOString(), title}, write(at));
    this.#times.push({at, write, node});
    return node;
  }
}
