import {element, setAttribute, setProperty, setText} from './dom.js';
import {describeGpu, shortHolder, stateWord} from './gpu-words.js';
import {icon, setIcon} from './icons.js';
import {palette} from './palette.js';
import {drawTimeline, Surface} from './sparkline.js';
import {whole} from './words.js';

const COLUMNS = 8;
const UTIL = 0;
const MEMORY = 1;

/**
 * The GPUs of one server as small tiles, for fleets in which a row for each would be too much: state, utilisation, its last
 * minutes behind it, and memory as a bar. One canvas serves all tiles of a server.
 */
export class GpuTiles {
  #surface;
  #tiles = [];
  #list = element('ul', {class: 'tiles-list'});
  #server = null;
  #timelines = [];

  constructor(onSize) {
    this.#surface = new Surface(onSize);
    this.element = element('div', {class: 'tiles'}, this.#surface.canvas, this.#list);
    // Tooltips are written when somebody points at a tile, not for four thousand tiles each second.
    this.#list.addEventListener('pointerover', (event) => this.#describe(event.target.closest('.tile')));
  }

  attach() {
    this.#surface.attach();
  }

  detach() {
    this.#surface.detach();
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
      const {element: node, shape, value, who} = this.#tiles[index];
      const latest = timelines[index].latest;
      setAttribute(node, 'data-gpu', gpu.uuid);
      setAttribute(node, 'data-state', gpu.state);
      setAttribute(node, 'data-dimmed', !matching.has(index));
      setIcon(shape, gpu.state);
      setText(value, isLive && gpu.state !== 'unhealthy' ? whole(latest[UTIL]) : '');
      setText(who, shortHolder(gpu));
      const used = isLive && gpu.memoryTotal ? latest[MEMORY] / gpu.memoryTotal : 0;
      setProperty(node, '--filled', (Number.isNaN(used) ? 0 : used).toFixed(2));
    });
    this.#draw(server, timelines, columns, isLive);
  }

  #draw(server, timelines, columns, isLive) {
    const context = this.#surface.begin();
    if (context === null) {
      return;
    }
    const rows = Math.ceil(server.gpus.length / columns);
    const width = this.#surface.width / columns;
    const height = this.#surface.height / rows;
    server.gpus.forEach((gpu, index) => {
      const box = {
        x: (index % columns) * width + 1.5,
        y: Math.floor(index / columns) * height + height * 0.3,
        width: width - 3,
        height: height * 0.7 - 4,
      };
      const colour = isLive ? palette.state[gpu.state] ?? palette.old : palette.old;
      drawTimeline(context, box, timelines[index], UTIL, 100, {colour, line: 0.4, area: 0.13});
    });
  }

  #describe(node) {
    const index = this.#tiles.findIndex((tile) => tile.element === node);
    if (index >= 0 && this.#server !== null) {
      node.title = describeGpu(this.#server, this.#server.gpus[index], this.#timelines[index].latest);
    }
  }
}

function newTile() {
  const shape = icon('free');
  const value = element('span', {class: 'tile-value'});
  const who = element('span', {class: 'tile-who'});
  return {shape, value, who, element: element('li', {class: 'tile'}, shape, value, who)};
}

/** What screen readers hear instead of the tiles. */
export function tilesSummary(server) {
  return server.gpus.map((gpu) => `GPU ${gpu.index} ${stateWord(gpu)}`).join(', ');
}
