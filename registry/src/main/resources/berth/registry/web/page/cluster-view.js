import {CancelButton} from './cancel-button.js';
import {now} from './clock.js';
import {clusterElapsed, clusterIcon, clusterPhase, clusterRestarts, clusterWhy} from './cluster-words.js';
import {element, setAttribute, setShown, setText} from './dom.js';
import {Facts} from './facts.js';
import {paintSoon} from './frames.js';
import {icon, setIcon} from './icons.js';
import {routeTo} from './route.js';
import {RunOutput} from './run-output.js';
import {clockSeconds, clockTime, count, duration, indices, moment, person, UNKNOWN} from './words.js';

const LONGEST_PAUSE_MILLIS = 30_000;
const ANSWER_MILLIS = 15_000;

/** Whose output is shown first: the task that speaks for the others, as far as there is one. */
const SPEAKERS = ['chief:0', 'master:0', 'worker:0'];

/** One cluster: the output of a task, all tasks with every attempt, and what happened. Fetched anew whenever the wall says it changed. */
export class ClusterView {
  #fleet;
  #server = '';
  #id = '';
  #isOpen = false;
  #whole = null;
  /** The news of the wall for which the whole was fetched. */
  #fetchedFor = '';
  #isFetching = false;
  #failures = 0;
  #retry = null;
  #shown = null;
  #failure = '';
  #icon = icon('running');
  #title = element('h1');
  #phase = element('span', {class: 'detail-state'});
  #head;
  #facts = new Facts();
  #missing = element('p', {class: 'nothing', hidden: true});
  #tasks = element('section', {class: 'detail-section', 'aria-label': 'Tasks'});
  #notes = element('ol', {class: 'notes'});
  #notesSection;
  #body;
  #cancel = new CancelButton('cluster');
  #ticking = [];
  #output = new RunOutput();
  #choice = element('select', {id: 'output-task', 'aria-label': 'Task whose output is shown'});
  #taskNames = '';

  /** Whether clusters may be cancelled from here; the registry's hello says so. */
  mayCancel = false;

  constructor(fleet) {
    this.#fleet = fleet;
    this.#head = element('header', {class: 'detail-head'}, this.#icon, this.#title, this.#phase, this.#cancel.element);
    this.#notesSection =
      element('section', {class: 'detail-section'}, element('h2', {}, 'What happened'), this.#notes);
    this.#output.addToHead(this.#choice);
    this.#choice.addEventListener('change', () => this.#paintOutput());
    this.#body = element('div', {class: 'with-output'}, this.#output.element, this.#facts.element);
    this.element = element('div', {class: 'detail cluster-detail'},
      this.#head, this.#missing, this.#body, this.#tasks, this.#notesSection);
  }

  open(route) {
    [this.#server, this.#id] = route.parts;
    this.#isOpen = true;
    this.#forget();
    this.#stopRetrying();
    this.#shown = null;
    this.#failure = '';
    this.element.dataset.cluster = this.#id;
    this.#tasks.replaceChildren();
    this.#notes.replaceChildren();
    this.#taskNames = '';
    this.#output.close();
    this.paint();
  }

  close() {
    this.#isOpen = false;
    this.#output.close();
    this.#stopRetrying();
  }

  filterChanged() {}

  serversChanged(names) {
    if (this.#isOpen && names.has(this.#server)) {
      paintSoon(this);
    }
  }

  sampled() {}

  tick() {
    for (const {node, text} of this.#ticking) {
      setText(node, text());
    }
    this.#paintFacts();
  }

  paint() {
    if (!this.#isOpen) {
      return;
    }
    const entry = this.#fleet.get(this.#server);
    const onWall = entry?.server.clusters.find((one) => one.id === this.#id);
    // The description of a server changes with every run on it; only what is new about this cluster is worth a request.
    const news = onWall ? JSON.stringify(onWall) : 'not on the wall';
    if (entry && news !== this.#fetchedFor && !this.#isFetching && this.#retry === null) {
      this.#fetch(news);
    }
    // Of a server that the registry has forgotten nothing will be news any more.
    const cluster = entry ? this.#newest(onWall, news) : null;
    const isNew = this.#shown !== cluster;
    this.#shown = cluster;
    setText(this.#title, cluster?.name || this.#id);
    if (setShown(this.#missing, !cluster)) {
      setText(this.#missing, this.#failure || (entry ? 'Loading…' : `There is no server ${this.#server}.`));
    }
    setShown(this.#icon, Boolean(cluster));
    setShown(this.#body, Boolean(cluster));
    setShown(this.#tasks, Boolean(cluster));
    setShown(this.#notesSection, (cluster?.notes.length ?? 0) > 0);
    setText(this.#phase, cluster ? clusterPhase(cluster) : '');
    this.#cancel.show(
      Boolean(cluster) && this.mayCancel && !['ended', 'stopping'].includes(cluster.phase) && Boolean(entry?.isUp),
      `api/servers/${encodeURIComponent(this.#server)}/clusters/${encodeURIComponent(this.#id)}/cancel`,
      cluster?.name ? `${cluster.name} and all its tasks` : this.#id);
    setAttribute(this.#head, 'data-outcome', cluster ? clusterIcon(cluster) : null);
    setAttribute(this.element, 'data-phase', cluster?.phase);
    if (cluster) {
      setIcon(this.#icon, clusterIcon(cluster));
      this.#paintFacts();
      if (isNew) {
        this.#paintTasks(cluster);
        this.#paintNotes(cluster);
        this.#paintTaskNames(cluster);
        this.#paintOutput();
      }
    }
  }

  #paintTaskNames(cluster) {
    const names = cluster.tasks.map((task) => task.name);
    if (this.#taskNames === names.join('\n')) {
      return;
    }
    const chosen = this.#taskNames === '' ? SPEAKERS.find((name) => names.includes(name)) : this.#choice.value;
    this.#taskNames = names.join('\n');
    this.#choice.replaceChildren(...names.map((name) => element('option', {value: name}, name)));
    this.#choice.value = names.includes(chosen) ? chosen : names[0];
  }

  /** The output of the newest attempt of the chosen task. */
  #paintOutput() {
    const task = this.#shown?.tasks.find((one) => one.name === this.#choice.value);
    const attempt = task?.attempts.findLast((one) => one.run);
    if (attempt) {
      this.#output.open(attempt.server, attempt.run);
    } else {
      this.#output.close(task ? 'not started yet' : '');
    }
  }

  #showOutputOf(task) {
    this.#choice.value = task;
    this.#paintOutput();
    this.#output.element.scrollIntoView({block: 'nearest'});
  }

  async #fetch(news) {
    const id = this.#id;
    let whole = null;
    let failure = '';
    this.#isFetching = true;
    try {
      const response = await fetch(
        `api/servers/${encodeURIComponent(this.#server)}/clusters/${encodeURIComponent(id)}`,
        {cache: 'no-store', signal: AbortSignal.timeout(ANSWER_MILLIS)});
      const answer = await response.json();
      if (response.ok) {
        whole = answer;
      } else {
        failure = answer.error ?? `the registry answered ${response.status}`;
      }
    } catch {
      failure = 'The registry does not answer.';
    }
    this.#isFetching = false;
    // Somebody may look at another one by now.
    if (this.#isOpen && id === this.#id) {
      this.#failure = failure;
      if (whole) {
        this.#whole = whole;
        this.#fetchedFor = news;
        this.#failures = 0;
      } else {
        this.#forget();
        this.#retryLater();
      }
    }
    paintSoon(this);
  }

  #forget() {
    this.#whole = null;
    this.#fetchedFor = '';
  }

  #retryLater() {
    const pause = Math.min(LONGEST_PAUSE_MILLIS, 1000 * 2 ** this.#failures++);
    this.#retry = setTimeout(() => {
      this.#retry = null;
      paintSoon(this);
    }, pause);
  }

  #stopRetrying() {
    clearTimeout(this.#retry);
    this.#retry = null;
    this.#failures = 0;
  }

  /** What was fetched, unless the wall has told something since. */
  #newest(onWall, news) {
    if (this.#whole === null || !onWall) {
      return this.#whole ?? onWall ?? null;
    }
    return news === this.#fetchedFor ? this.#whole : withOlder(onWall, this.#whole);
  }

  #paintFacts() {
    const cluster = this.#shown;
    if (!cluster) {
      return;
    }
    this.#facts.show([
      ['cluster', cluster.id],
      ['why', clusterWhy(cluster)],
      ['owner', person(cluster.user, cluster.host)],
      ['supervised by', element('a', {href: routeTo('server', [this.#server])}, this.#server)],
      ['tasks', count(cluster.tasks.length, 'task')],
      ['elapsed', clusterElapsed(cluster, now())],
      ['began again', clusterRestarts(cluster)],
      ['submitted', moment(cluster.submitted)],
      ['formed', cluster.formed === null ? '' : moment(cluster.formed)],
      ['ends by', cluster.endsBy === null || cluster.ended !== null ? ''
        : `${moment(cluster.endsBy)} (${duration(cluster.endsBy - now())} left)`],
      ['ended', cluster.ended === null ? '' : moment(cluster.ended)],
    ]);
  }

  #paintTasks(cluster) {
    this.#ticking = [];
    const heads = ['Task', 'Attempt', 'Server and run', 'GPUs', 'Address', 'Started', 'Ran', 'End'];
    this.#tasks.replaceChildren(element('h2', {}, 'Tasks'), element('table', {class: 'list tasks'},
      element('thead', {}, element('tr', {}, ...heads.map((head) => element('th', {scope: 'col'}, head)))),
      ...cluster.tasks.map((task) => this.#task(task))));
  }

  #task(task) {
    const attempts = [...task.attempts].reverse();
    const rows = attempts.map((attempt, index) => this.#attempt(task, attempt, index === 0));
    if (rows.length === 0) {
      rows.push(element('tr', {}, this.#taskCell(task), element('td', {class: 'second', colspan: '7'}, 'not started yet')));
    }
    return element('tbody', {'data-task': task.name}, ...rows);
  }

  #attempt(task, attempt, isNewest) {
    const ran = element('td', {class: 'cell-elapsed'});
    const text = () => attempt.started === null ? UNKNOWN
      : duration(attempt.ended === null ? now() - attempt.started : attempt.ended - attempt.started);
    setText(ran, text());
    if (attempt.ended === null) {
      this.#ticking.push({node: ran, text});
    }
    const failed = attempt.ended !== null && attempt.exitCode !== 0;
    const code = attempt.exitCode === null ? '' : `exit ${attempt.exitCode}`;
    const end = [attempt.end, attempt.why?.includes(code) ? '' : code, attempt.why]
      .filter(Boolean).join(', ');
    const outcome = attempt.ended === null ? 'running' : failed ? 'failed' : 'succeeded';
    return element('tr', {'data-attempt': attempt.number, 'data-outcome': outcome, 'data-older': !isNewest},
      isNewest ? this.#taskCell(task) : element('td', {class: 'cell-name'}),
      element('td', {class: 'cell-state'}, icon(outcome), String(attempt.number)),
      element('td', {class: 'cell-server'},
        attempt.server ? element('a', {href: routeTo('server', [attempt.server])}, attempt.server) : '', ' ',
        attempt.run ? element('a',
          {class: 'id', href: routeTo('run', [attempt.server, attempt.run]), 'data-open': true}, attempt.run) : ''),
      element('td', {class: 'cell-gpus'}, indices(attempt.gpus) || 'none'),
      element('td', {class: 'cell-address'}, attempt.address ?? ''),
      element('td', {title: moment(attempt.started)},
        attempt.started === null ? UNKNOWN : clockTime(attempt.started, now())),
      ran,
      element('td', {class: 'cell-outcome'}, attempt.ended === null ? 'running' : end));
  }

  /** Its name is a button that shows its output above. */
  #taskCell(task) {
    const details = [
      task.gpuCount > 0 ? count(task.gpuCount, 'GPU') : '',
      task.restarts > 0 ? count(task.restarts, 'restart') : '',
    ].filter(Boolean).join(', ');
    const show = element('button', {class: 'link', type: 'button', title: `Show the output of ${task.name}`}, task.name);
    show.addEventListener('click', () => this.#showOutputOf(task.name));
    return element('td', {class: 'cell-name'}, show, element('span', {class: 'second'}, details));
  }

  #paintNotes(cluster) {
    this.#notes.replaceChildren(...[...cluster.notes].reverse().map((note) =>
      element('li', {}, element('time', {title: moment(note.at)}, clockSeconds(note.at)), ' ',
        element('span', {}, note.text))));
  }
}

/**
 * The news of the wall, which have only the last attempts and notes, with the older ones of what was fetched before: rows
 * must not vanish for as long as a request takes.
 */
function withOlder(onWall, whole) {
  const olderAttempts = (task) => (whole.tasks.find((one) => one.name === task.name)?.attempts ?? [])
    // One that was still running then has ended since, nobody knows here how.
    .filter((attempt) => attempt.ended !== null && attempt.number < (task.attempts[0]?.number ?? Infinity));
  return {
    ...onWall,
    tasks: onWall.tasks.map((task) => ({...task, attempts: [...olderAttempts(task), ...task.attempts]})),
    notes: [...whole.notes.filter((note) => note.at < (onWall.notes[0]?.at ?? Infinity)), ...onWall.notes],
  };
}
