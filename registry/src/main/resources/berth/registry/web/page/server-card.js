import {now} from './clock.js';
import {element, setAttribute, setProperty, setShown, setText} from './dom.js';
import {paintNoMore, paintSoon} from './frames.js';
import {GpuRow} from './gpu-row.js';
import {GpuTiles, tilesSummary} from './gpu-tiles.js';
import {routeTo} from './route.js';
import {awaySentence, freeGpus, hasOneModel, modelsSentence, serverNotes, waitingSentence} from './server-words.js';
import {count} from './words.js';

const QUEUE_SHOWN = 3;

/**
 * A server with all its GPUs. Its frame is there from the beginning, with the height that it will need; what is in it is
 * made when it comes into sight for the first time, and brought up to date only while it is in sight.
 */
export class ServerCard {
  #entry;
  #density;
  #matching = null;
  #inSight = false;
  #paintedAt = 0;
  #name = element('a', {class: 'card-name', 'data-open': true});
  #chips = element('span', {class: 'chips'});
  #chipsShown = '';
  #free = element('span', {class: 'card-free'});
  #models = element('span', {class: 'card-models'});
  #notes = element('div', {class: 'card-notes'});
  #notesShown = '';
  #away = element('p', {class: 'card-away'});
  #queue = element('ol', {class: 'card-queue', 'aria-label': 'Waiting'});
  #queueLines = [];
  #rows = [];
  #rowsList = element('ul', {class: 'gpus', 'aria-label': 'GPUs'});
  #tiles = null;
  #header;

  /** `density`: "full", "rows" or "tiles". */
  constructor(entry, density) {
    this.#entry = entry;
    this.#density = density;
    this.#header = element('header', {class: 'card-head'},
      element('h2', {}, this.#name), this.#chips, this.#models, this.#free);
    this.element = element('article', {class: 'card', 'data-density': density, 'data-server': entry.name},
      this.#header, this.#away, this.#notes, this.#rowsList, this.#queue);
    setText(this.#name, entry.name);
    this.#name.setAttribute('href', routeTo('server', [entry.name]));
    this.#frame();
  }

  /** Something of the server changed, or it is another object by now. */
  changed(entry, matching) {
    this.#entry = entry;
    this.#matching = matching;
    this.#frame();
    this.repaint();
  }

  setInSight(inSight) {
    if (this.#inSight === inSight) {
      return;
    }
    this.#inSight = inSight;
    if (inSight) {
      this.repaint();
    } else {
      paintNoMore(this);
    }
  }

  get inSight() {
    return this.#inSight;
  }

  repaint() {
    if (this.#inSight) {
      paintSoon(this);
    }
  }

  /** Lets relative times go on, if nothing else had the card painted. */
  tick() {
    if (performance.now() - this.#paintedAt > 900) {
      this.repaint();
    }
  }

  remove() {
    this.setInSight(false);
    this.element.remove();
  }

  paint() {
    this.#paintedAt = performance.now();
    const {server, timelines, isUp} = this.#entry;
    const isLive = isUp;
    const matching = this.#matching ?? {has: () => true};
    this.#paintHead(server);
    this.#paintQueue(server);
    if (this.#density === 'tiles') {
      if (this.#tiles === null) {
        this.#tiles = new GpuTiles();
        this.#rowsList.replaceWith(this.#tiles.element);
      }
      setShown(this.#tiles.element, server.gpus.length > 0);
      this.#tiles.paint(server, timelines, {isLive, matching});
      setAttribute(this.#tiles.element, 'aria-label', tilesSummary(server));
      return;
    }
    const showsModel = !hasOneModel(server);
    while (this.#rows.length < server.gpus.length) {
      const row = new GpuRow();
      this.#rows.push(row);
      this.#rowsList.append(row.element);
    }
    while (this.#rows.length > server.gpus.length) {
      this.#rows.pop().element.remove();
    }
    server.gpus.forEach((gpu, index) =>
      this.#rows[index].paint(server, gpu, timelines[index], {isLive, isDimmed: !matching.has(index), showsModel}));
  }

  /** What is right without being in sight: the height, and what tests and styles select by. */
  #frame() {
    const {server} = this.#entry;
    setAttribute(this.element, 'data-state', server.state);
    setAttribute(this.element, 'data-draining', server.draining);
    setProperty(this.element, '--gpus', String(server.gpus.length));
  }

  #paintHead(server) {
    const chips = [server.simulated ? 'simulated' : null, server.draining ? 'draining' : null,
      server.queue.length > 0 ? `${server.queue.length} waiting` : null,
      server.runCount > 0 ? count(server.runCount, 'run') : null].filter(Boolean);
    if (this.#chipsShown !== chips.join('|')) {
      this.#chipsShown = chips.join('|');
      this.#chips.replaceChildren(...chips.map((chip) =>
        element('span', {class: 'chip', 'data-chip': chip.split(' ').at(-1)}, chip)));
    }
    setText(this.#models, modelsSentence(server));
    setText(this.#free, server.state === 'up' && server.gpus.length > 0
      ? `${freeGpus(server)} of ${server.gpus.length} free` : '');
    setAttribute(this.#free, 'data-any', freeGpus(server) > 0);
    const away = awaySentence(server, now());
    if (setShown(this.#away, away !== '')) {
      setText(this.#away, away);
      setAttribute(this.#away, 'title', away);
    }
    const notes = serverNotes(server);
    setAttribute(this.element, 'data-noted', away !== '' || notes.some((note) => note.kind !== 'draining'));
    const shown = JSON.stringify(notes);
    if (this.#notesShown !== shown) {
      this.#notesShown = shown;
      this.#notes.replaceChildren(...notes.map((note) =>
        element('p', {class: 'note', 'data-note': note.kind, title: note.text}, note.text)));
    }
  }

  #paintQueue(server) {
    const requests = server.queue.slice(0, QUEUE_SHOWN);
    const lines = requests.map((request) => waitingSentence(request, now()));
    if (server.queue.length > QUEUE_SHOWN) {
      lines.push(`and ${server.queue.length - QUEUE_SHOWN} more`);
    }
    while (this.#queueLines.length < lines.length) {
      const line = element('li');
      this.#queueLines.push(line);
      this.#queue.append(line);
    }
    while (this.#queueLines.length > lines.length) {
      this.#queueLines.pop().remove();
    }
    lines.forEach((text, index) => setText(this.#queueLines[index], text));
    setShown(this.#queue, lines.length > 0);
  }
}
