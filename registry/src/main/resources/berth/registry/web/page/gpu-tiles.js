import {now} from './clock.js';
import {element, setAttribute, setProperty, setText} from './dom.js';
import {describeGpu, shortHolder, stateWord} from './gpu-words.js';
import {icon, setIcon} from './icons.js';
import {Sparkline} from './sparkline.js';
import {whole} from './words.js';

const COLUMNS = 8;
/** A tile is some forty pixels wide. */
const STRIDE = 4;
const UTIL = 0;
const MEMORY = 1;

/**
 * The GPUs of one server as small tiles, for fleets in which a row for each would be too much: state, utilisation, its last
 * minutes behind it, and memory as a bar.
 */
export class GpuTiles {
  #tiles = [];
  #list = element('ul', {class: 'tiles-list'});
  #server = null;
  #timelines = [];

  constructor() {
    this.element = element('div', {class: 'tiles', role: 'group'}, this.#list);
    // Tooltips are written when somebody points at a tile, not for four thousand tiles each second.
    this.#list.addEventListener('pointerover', (event) => this.#describe(event.target.closest('.tile')));
  }

  paint(server, timelines, {isLive, matching}) {
    this.#server = server;
    this.#timelines = timelines;
    while (this.#tiles.length < server.gpus.length) {
      const tile = newTile();
      this.#tiles.push(tile);
      this.#list.append(tile.element);
    }
    while (this.#tiles.length > server.gpus.length) {
      this.#tiles.pop().element.remove();
    }
    const columns = Math.max(1, Math.min(COLUMNS, server.gpus.length));
    setProperty(this.element, '--columns', String(columns));
    server.gpus.forEach((gpu, index) => {
      const {element: node, shape, value, who, line} = this.#tiles[index];
      const latest = timelines[index].latest(now());
      setAttribute(node, 'data-gpu', gpu.uuid);
      setAttribute(node, 'data-state', gpu.state);
      setAttribute(node, 'data-old', timelines[index].isOld(now()));
      setAttribute(node, 'data-dimmed', !matching.has(index));
      setIcon(shape, gpu.state);
      setText(value, isLive ? whole(latest[UTIL]) : '');
      setText(who, shortened(shortHolder(gpu), columns > 4 ? 6 : 14));
      const used = isLive && gpu.memoryTotal ? latest[MEMORY] / gpu.memoryTotal : 0;
      setProperty(node, '--filled', (Number.isNaN(used) ? 0 : used).toFixed(2));
      line.draw(timelines[index], 100);
    });
  }

  #describe(node) {
    const index = this.#tiles.findIndex((tile) => tile.element === node);
    if (index >= 0 && this.#server !== null) {
      node.title = describeGpu(this.#server, this.#server.gpus[index], this.#timelines[index].latest(now()));
    }
  }
}

/** Cut here and not by the style sheet: clipping four thousand tiles would cost more than drawing them. */
function shortened(text, room) {
  return text.length > room ? `${text.slice(0, room - 1)}…` : text;
}

function newTile() {
  const shape = icon('free');
  const value = element('span', {class: 'tile-value'});
  const who = element('span', {class: 'tile-who'});
  const line = new Sparkline('util', {stride: STRIDE, hasLine: false});
  return {shape, value, who, line, element: element('li', {class: 'tile'}, line.element, shape, value, who)};
}

/** What screen readers hear instead of the tiles. */
export function tilesSummary(server) {
  return server.gpus.map((gpu) => `GPU ${gpu.index} ${stateWord(gpu)}`).join(', ');
}
