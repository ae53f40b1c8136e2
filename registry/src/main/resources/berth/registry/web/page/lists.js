import {now} from './clock.js';
import {compareClusters} from './cluster-words.js';
import {ClusterTable} from './cluster-table.js';
import {element, setAttribute, setShown, setText} from './dom.js';
import {paintSoon} from './frames.js';
import {KeyedList} from './keyed-list.js';
import {routeTo} from './route.js';
import {RunTable} from './run-table.js';
import {compareRuns} from './run-words.js';
import {count, duration, person} from './words.js';

/** A view with one list of everything of a kind, over all servers. */
class ListView {
  #nothing = element('p', {class: 'nothing', hidden: true});
  #isOpen = false;
  #what;

  constructor(fleet, title, what, list) {
    this.fleet = fleet;
    this.#what = what;
    this.list = list;
    this.element = element('section', {class: 'list-view'}, element('h1', {}, title), this.#nothing, list.element);
  }

  open(route, filter) {
    this.#isOpen = true;
    this.filter = filter;
    this.paint();
  }

  close() {
    this.#isOpen = false;
    this.list.show([]);
  }

  filterChanged(filter) {
    this.filter = filter;
    paintSoon(this);
  }

  serversChanged() {
    if (this.#isOpen) {
      paintSoon(this);
    }
  }

  sampled() {}

  tick() {
    this.list.tick();
  }

  paint() {
    if (!this.#isOpen) {
      return;
    }
    const items = this.items();
    this.list.show(items);
    if (setShown(this.#nothing, items.length === 0)) {
      setText(this.#nothing, this.filter.isEmpty
        ? `No ${this.#what}.` : `No ${this.#what} matches “${this.filter.text}”. Esc clears the filter.`);
    }
  }
}

export class RunsView extends ListView {
  constructor(fleet) {
    super(fleet, 'Runs', 'run', new RunTable({showsServer: true}));
  }

  items() {
    return this.fleet.all()
      .flatMap(({server}) => server.runs.map((run) => ({server, run})))
      .filter(({server, run}) => this.filter.matchesRun(server, run))
      .sort((a, b) => compareRuns(a.run, b.run));
  }
}

export class ClustersView extends ListView {
  constructor(fleet) {
    super(fleet, 'Clusters', 'cluster', new ClusterTable());
  }

  items() {
    return this.fleet.all()
      .flatMap(({server}) => server.clusters.map((cluster) => ({server, cluster})))
      .filter(({server, cluster}) => this.filter.matchesCluster(server, cluster))
      .sort((a, b) => compareClusters(a.cluster, b.cluster));
  }
}

export class QueueView extends ListView {
  constructor(fleet) {
    super(fleet, 'Waiting', 'one who waits', new QueueTable());
  }

  items() {
    return this.fleet.all()
      .flatMap(({server}) => server.queue.map((request, place) => ({server, request, place})))
      .filter(({server, request}) => this.filter.matchesWaiting(server, request));
  }
}

/** Who waits for GPUs, server by server, next first. */
export class QueueTable {
  #body = element('tbody');
  #rows = new KeyedList(this.#body, () => new QueueRow());

  constructor() {
    const heads = ['Place', 'Server', 'Owner', 'Wants', 'Since', 'Purpose'];
    this.element = element('table', {class: 'list queue'},
      element('thead', {}, element('tr', {}, ...heads.map((head) => element('th', {scope: 'col'}, head)))),
      this.#body);
  }

  show(items) {
    const keys = items.map(({server, place}) => `${server.name}/${place}`);
    this.#rows.show(keys);
    items.forEach((item, index) => this.#rows.get(keys[index]).show(item));
    setShown(this.element, items.length > 0);
  }

  tick() {
    for (const row of this.#rows.values()) {
      row.tick();
    }
  }
}

class QueueRow {
  #place = element('td', {class: 'cell-state'});
  #server = element('a', {'data-open': true});
  #owner = element('td', {class: 'cell-owner'});
  #wants = element('td', {class: 'cell-gpus'});
  #since = element('td', {class: 'cell-elapsed'});
  #purpose = element('td', {class: 'cell-outcome'});
  #request = null;

  constructor() {
    this.element = element('tr', {'data-waiting': true}, this.#place,
      element('td', {class: 'cell-name'}, this.#server), this.#owner, this.#wants, this.#since, this.#purpose);
  }

  show({server, request, place}) {
    this.#request = request;
    setText(this.#place, place === 0 ? 'next' : `${place + 1}.`);
    setText(this.#server, server.name);
    setAttribute(this.#server, 'href', routeTo('server', [server.name]));
    setText(this.#owner, person(request.user, request.host));
    setText(this.#wants, request.gpus < 0 ? 'all GPUs' : count(request.gpus, 'GPU'));
    setText(this.#purpose, [request.purpose, request.waitingBecause].filter(Boolean).join('; '));
    this.tick();
  }

  tick() {
    setText(this.#since, duration(now() - this.#request.since));
  }
}
