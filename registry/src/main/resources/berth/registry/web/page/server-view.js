import {compareClusters} from './cluster-words.js';
import {ClusterTable} from './cluster-table.js';
import {element, setShown, setText} from './dom.js';
import {Facts} from './facts.js';
import {paintSoon} from './frames.js';
import {QueueTable} from './lists.js';
import {RunTable} from './run-table.js';
import {compareRuns} from './run-words.js';
import {ServerCard} from './server-card.js';
import {bytes, moment} from './words.js';

const RUNTIMES = {docker: 'Docker containers', process: 'processes'};

/** One server: its GPUs with large time lines, who waits, its runs and clusters, and what it is. */
export class ServerView {
  #fleet;
  #past;
  #name = '';
  #isOpen = false;
  #card = null;
  #cardPlace = element('div', {class: 'single'});
  #missing = element('p', {class: 'nothing', hidden: true});
  #facts = new Facts();
  #queue = new QueueTable();
  #runs = new RunTable({showsServer: false});
  #clusters = new ClusterTable();
  #sections;

  constructor(fleet, past) {
    this.#fleet = fleet;
    this.#past = past;
    this.#sections = {
      queue: section('Waiting', this.#queue.element),
      runs: section('Runs', this.#runs.element),
      clusters: section('Clusters that it supervises', this.#clusters.element),
      facts: section('Server', this.#facts.element),
    };
    this.element = element('div', {class: 'detail'}, this.#missing, this.#cardPlace, this.#sections.queue,
      this.#sections.runs, this.#sections.clusters, this.#sections.facts);
  }

  open(route) {
    this.#isOpen = true;
    [this.#name] = route.parts;
    this.paint();
  }

  close() {
    this.#isOpen = false;
    this.#dropCard();
  }

  filterChanged() {}

  serversChanged(names) {
    if (this.#isOpen && names.has(this.#name)) {
      paintSoon(this);
    }
  }

  sampled(names) {
    if (names.includes(this.#name)) {
      this.#card?.repaint();
    }
  }

  pastLoaded() {
    this.#card?.repaint();
  }

  wantPast() {
    this.#past.want(this.#name);
  }

  tick() {
    this.#card?.tick();
    this.#runs.tick();
    this.#queue.tick();
    this.#clusters.tick();
  }

  paint() {
    if (!this.#isOpen) {
      return;
    }
    const entry = this.#fleet.get(this.#name);
    setShown(this.#missing, !entry);
    Object.values(this.#sections).forEach((part) => setShown(part, Boolean(entry)));
    if (!entry) {
      setText(this.#missing, `There is no server ${this.#name}.`);
      this.#dropCard();
      return;
    }
    if (this.#card === null) {
      this.#card = new ServerCard(entry, 'full');
      this.#cardPlace.append(this.#card.element);
      this.#card.setInSight(true);
    }
    this.#past.want(this.#name);
    this.#card.changed(entry, null);
    this.#paintSections(entry.server);
  }

  #paintSections(server) {
    this.#queue.show(server.queue.map((request, place) => ({server, request, place})));
    setShown(this.#sections.queue, server.queue.length > 0);
    this.#runs.show([...server.runs].sort(compareRuns).map((run) => ({server, run})));
    setShown(this.#sections.runs, server.runs.length > 0);
    this.#clusters.show([...server.clusters].sort(compareClusters).map((cluster) => ({server, cluster})));
    setShown(this.#sections.clusters, server.clusters.length > 0);
    const memory = [
      server.memoryTotalBytes === null ? '' : bytes(server.memoryTotalBytes),
      server.memoryFreeBytes === null ? '' : `${bytes(server.memoryFreeBytes)} free`,
    ].filter(Boolean).join(', ');
    this.#facts.show([
      ['address', server.address],
      ['GPUs', server.simulated ? 'simulated' : ''],
      ['driver', server.driver ?? ''],
      ['CUDA', server.cuda ?? ''],
      ['CPUs', server.cpus === null ? '' : String(server.cpus)],
      ['memory', memory],
      ['runs are', RUNTIMES[server.runtime] ?? ''],
      ['services', (server.services ?? []).join(', ')],
      ['labels', Object.entries(server.labels ?? {}).map(([key, value]) => `${key}=${value}`).join(', ')],
      ['berthd', server.version ?? ''],
      ['registered', moment(server.registered)],
    ]);
  }

  #dropCard() {
    this.#card?.remove();
    this.#card = null;
  }
}

function section(title, content) {
  return element('section', {class: 'detail-section'}, element('h2', {}, title), content);
}
