import {now} from './clock.js';
import {clusterElapsed, clusterIcon, clusterPhase, clusterRestarts, clusterWhy} from './cluster-words.js';
import {element, setAttribute, setShown, setText} from './dom.js';
import {icon, setIcon} from './icons.js';
import {KeyedList} from './keyed-list.js';
import {routeTo} from './route.js';
import {moment, person} from './words.js';

const TASKS_SHOWN = 12;

/** Clusters as rows of a table. */
export class ClusterTable {
  #body = element('tbody');
  #rows = new KeyedList(this.#body, () => new ClusterRow());

  constructor() {
    const heads = ['Phase', 'Cluster', 'Owner', 'Tasks', 'Elapsed', 'Restarts and why'];
    this.element = element('table', {class: 'list clusters'},
      element('thead', {}, element('tr', {}, ...heads.map((head) => element('th', {scope: 'col'}, head)))),
      this.#body);
  }

  /** Shows `{server, cluster}` in this order. */
  show(items) {
    const keys = items.map(({server, cluster}) => `${server.name}/${cluster.id}`);
    this.#rows.show(keys);
    items.forEach((item, index) => this.#rows.get(keys[index]).show(item.server, item.cluster));
    setShown(this.element, items.length > 0);
  }

  tick() {
    for (const row of this.#rows.values()) {
      row.tick();
    }
  }
}

class ClusterRow {
  #icon = icon('running');
  #phase = element('span');
  #name = element('a', {'data-open': true});
  #id = element('span', {class: 'second'});
  #owner = element('td', {class: 'cell-owner'});
  #tasks = element('td', {class: 'cell-tasks'});
  #elapsed = element('td', {class: 'cell-elapsed'});
  #restarts = element('span', {class: 'cell-text'});
  #why = element('span', {class: 'second'});
  #cluster = null;

  constructor() {
    this.element = element('tr', {},
      element('td', {class: 'cell-state'}, this.#icon, this.#phase),
      element('td', {class: 'cell-name'}, this.#name, this.#id),
      this.#owner, this.#tasks, this.#elapsed,
      element('td', {class: 'cell-outcome'}, this.#restarts, this.#why));
  }

  show(server, cluster) {
    if (this.#cluster === cluster) {
      return;
    }
    this.#cluster = cluster;
    setAttribute(this.element, 'data-cluster', cluster.id);
    setAttribute(this.element, 'data-phase', cluster.phase);
    setAttribute(this.element, 'data-outcome', clusterIcon(cluster));
    setIcon(this.#icon, clusterIcon(cluster));
    setText(this.#phase, clusterPhase(cluster));
    setText(this.#name, cluster.name || cluster.id);
    setAttribute(this.#name, 'href', routeTo('cluster', [server.name, cluster.id]));
    setText(this.#id, `${cluster.id}, supervised by ${server.name}`);
    setText(this.#owner, person(cluster.user, cluster.host));
    setAttribute(this.#elapsed, 'title', `submitted ${moment(cluster.submitted)}`);
    setText(this.#restarts, clusterRestarts(cluster));
    setText(this.#why, clusterWhy(cluster));
    const tasks = cluster.tasks.slice(0, TASKS_SHOWN).map(taskChip);
    if (cluster.tasks.length > TASKS_SHOWN) {
      tasks.push(element('span', {class: 'chip'}, `and ${cluster.tasks.length - TASKS_SHOWN} more`));
    }
    this.#tasks.replaceChildren(...tasks);
    this.tick();
  }

  tick() {
    setText(this.#elapsed, clusterElapsed(this.#cluster, now()));
  }
}

function taskChip(task) {
  const attempt = task.attempts.at(-1);
  const restarts = task.restarts > 0 ? ` ↻${task.restarts}` : '';
  const made = element('span', {class: 'chip task', 'data-task': task.name},
    element('b', {}, task.name), attempt ? ` ${attempt.server}${restarts}` : ' not started');
  if (attempt?.end) {
    made.dataset.end = attempt.end;
    made.append(` ${attempt.end}`);
  }
  return made;
}
