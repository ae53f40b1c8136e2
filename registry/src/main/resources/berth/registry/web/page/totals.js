import {now} from './clock.js';
import {element, setAttribute, setProperty, setShown, setText} from './dom.js';
import {GPU_STATES} from './gpu-words.js';
import {icon} from './icons.js';
import {watts} from './words.js';

const LABELS = {free: 'free', reserved: 'reserved', locked: 'locked', used: 'by strangers', unhealthy: 'unhealthy'};

/** Counts over all servers. GPUs of servers that are away are in no state that anybody knows, so they do not count. */
export function countFleet(entries) {
  const totals = {gpus: 0, free: 0, reserved: 0, locked: 0, used: 0, unhealthy: 0, draining: 0,
    up: 0, away: 0, runs: 0, waiting: 0, clusters: 0, power: NaN};
  for (const {server, timelines, isUp} of entries) {
    totals.clusters += server.clusters.filter((cluster) => cluster.phase !== 'ended').length;
    if (!isUp) {
      totals.away++;
      continue;
    }
    totals.up++;
    totals.runs += server.runCount;
    totals.waiting += server.queue.length;
    totals.gpus += server.gpus.length;
    server.gpus.forEach((gpu, index) => {
      // Free, but nobody gets it: counting it would send people to a server that refuses them.
      totals[gpu.state === 'free' && server.draining ? 'draining' : gpu.state]++;
      const power = timelines[index].latest(now())[3];
      if (!Number.isNaN(power)) {
        totals.power = (Number.isNaN(totals.power) ? 0 : totals.power) + power;
      }
    });
  }
  return totals;
}

/** The line of totals and the bar below it. Each total that can be filtered by is a button for that. */
export class TotalsLine {
  #items = new Map();
  #segments = new Map();

  /** Calls `onFilter(text)` when a total is clicked. */
  constructor(onFilter) {
    const line = element('div', {class: 'totals-line'});
    const add = (key, label, shape, filter) => {
      const number = element('b', {class: 'total-number'}, '0');
      const words = element('span', {class: 'total-label'}, label);
      const made = element(filter ? 'button' : 'span',
        {class: 'total', 'data-total': key, type: filter ? 'button' : null, title: filter ? `show ${filter}` : null},
        shape ? icon(shape) : null, number, words);
      if (filter) {
        made.addEventListener('click', () => onFilter(filter));
      }
      this.#items.set(key, {made, number, words});
      line.append(made);
    };
    GPU_STATES.forEach((state) => add(state, LABELS[state], state, `state:${state}`));
    add('draining', 'draining', 'free', 'state:draining');
    line.append(element('span', {class: 'totals-gap'}));
    add('up', 'servers up', null, 'state:up');
    add('away', 'away', null, '-state:up');
    add('runs', 'runs', null, null);
    add('waiting', 'waiting', null, null);
    add('power', '', null, null);
    const bar = element('div', {class: 'totals-bar', 'aria-hidden': 'true'});
    [...GPU_STATES, 'draining'].forEach((state) => {
      const segment = element('i', {'data-state': state});
      this.#segments.set(state, segment);
      bar.append(segment);
    });
    this.element = element('section', {class: 'totals', 'aria-label': 'Totals'}, line, bar);
  }

  show(totals) {
    for (const [key, {made, number}] of this.#items) {
      setText(number, key === 'power' ? watts(totals.power) : String(totals[key]));
      setAttribute(made, 'data-zero', totals[key] === 0);
    }
    setText(this.#items.get('up').words, totals.up === 1 ? 'server up' : 'servers up');
    setText(this.#items.get('runs').words, totals.runs === 1 ? 'run' : 'runs');
    setShown(this.#items.get('draining').made, totals.draining > 0);
    setShown(this.#items.get('power').made, !Number.isNaN(totals.power));
    for (const [state, segment] of this.#segments) {
      setProperty(segment, '--share', String(totals[state]));
    }
  }
}
