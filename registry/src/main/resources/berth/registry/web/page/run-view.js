import {CancelButton} from './cancel-button.js';
import {now} from './clock.js';
import {element, setAttribute, setShown, setText} from './dom.js';
import {Facts} from './facts.js';
import {paintSoon} from './frames.js';
import {GpuRow} from './gpu-row.js';
import {icon, setIcon} from './icons.js';
import {KeyedList} from './keyed-list.js';
import {routeTo} from './route.js';
import {RunOutput} from './run-output.js';
import {isActive, runElapsed, runIcon, runOutcome, runStateWord, runTitle} from './run-words.js';
import {bytes, indices, moment, person} from './words.js';

/** One run: what it is, the GPUs it has, and its output as it comes. */
export class RunView {
  #fleet;
  #past;
  #server = '';
  #id = '';
  #isOpen = false;
  #icon = icon('running');
  #title = element('h1');
  #state = element('span', {class: 'detail-state'});
  #head;
  #facts = new Facts();
  #gpuList = element('ul', {class: 'gpus'});
  #gpus = new KeyedList(this.#gpuList, () => new GpuRow());
  #gpuCard = element('div', {class: 'card run-gpus', 'data-density': 'full'}, this.#gpuList);
  #cancel = new CancelButton('run');
  #missing = element('p', {class: 'nothing', hidden: true});
  #output = new RunOutput();

  /** Whether runs may be cancelled from here; the registry's hello says so. */
  mayCancel = false;

  constructor(fleet, past) {
    this.#fleet = fleet;
    this.#past = past;
    this.#head = element('header', {class: 'detail-head'}, this.#icon, this.#title, this.#state, this.#cancel.element);
    this.element = element('div', {class: 'detail run-detail'},
      this.#head, this.#missing,
      element('div', {class: 'with-output'}, this.#output.element, this.#facts.element), this.#gpuCard);
  }

  open(route) {
    [this.#server, this.#id] = route.parts;
    this.#isOpen = true;
    this.element.dataset.run = this.#id;
    this.#output.open(this.#server, this.#id);
    this.paint();
  }

  close() {
    this.#isOpen = false;
    this.#output.close();
    this.#gpus.show([]);
  }

  filterChanged() {}

  serversChanged(names) {
    if (this.#isOpen && names.has(this.#server)) {
      paintSoon(this);
    }
  }

  sampled(names) {
    if (names.includes(this.#server)) {
      paintSoon(this);
    }
  }

  pastLoaded() {
    paintSoon(this);
  }

  wantPast() {
    this.#past.want(this.#server);
  }

  tick() {
    paintSoon(this);
  }

  paint() {
    if (!this.#isOpen) {
      return;
    }
    const entry = this.#fleet.get(this.#server);
    const run = entry?.server.runs.find((one) => one.id === this.#id);
    setText(this.#title, run ? runTitle(run) : this.#id);
    // An old run may be in no list any more while its server still has the output.
    if (setShown(this.#missing, !run)) {
      setText(this.#missing, entry
        ? `${this.#server} does not list this run any more; its output may still be there.`
        : `There is no server ${this.#server}.`);
    }
    setShown(this.#facts.element, Boolean(run));
    setShown(this.#icon, Boolean(run));
    setText(this.#state, run ? runStateWord(run) : '');
    this.#cancel.show(Boolean(run) && this.mayCancel && isActive(run) && entry.isUp,
      `api/servers/${encodeURIComponent(this.#server)}/runs/${encodeURIComponent(this.#id)}/cancel`,
      run && runTitle(run) !== this.#id ? `${runTitle(run)} (${this.#id})` : this.#id);
    this.#paintGpus(entry, run);
    if (run) {
      setAttribute(this.element, 'data-state', run.state);
      setAttribute(this.#head, 'data-outcome', runIcon(run));
      setIcon(this.#icon, runIcon(run));
      this.#paintFacts(entry.server, run);
    }
  }

  #paintGpus(entry, run) {
    const shown = entry && run && isActive(run) ? run.gpus : [];
    const places = shown.map((index) => entry.server.gpus.findIndex((gpu) => gpu.index === index))
      .filter((place) => place >= 0);
    if (places.length > 0) {
      this.#past.want(this.#server);
    }
    this.#gpus.show(places);
    for (const place of places) {
      this.#gpus.get(place).paint(entry.server, entry.server.gpus[place], entry.timelines[place],
        {isLive: entry.isUp, isDimmed: false, showsModel: true});
    }
    setShown(this.#gpuCard, places.length > 0);
  }

  #paintFacts(server, run) {
    const cluster = run.cluster ? this.#fleet.clusterOfRun(server.name, run.id) : null;
    this.#facts.show([
      ['run', run.id],
      ['program', run.program],
      ['runs in', run.environment],
      ['outcome', run.state === 'ended' ? runOutcome(run) : ''],
      ['now', run.state === 'ended' ? '' : runOutcome(run)],
      ['owner', person(run.user, run.host)],
      ['server', element('a', {href: routeTo('server', [server.name])}, server.name)],
      ['GPUs', run.gpus.length === 0 ? 'none' : indices(run.gpus)],
      [run.started === null ? 'waits' : 'elapsed', runElapsed(run, now())],
      [run.started === null ? 'elapsed' : 'waits', ''],
      ['submitted', moment(run.submitted)],
      ['started', run.started === null ? '' : moment(run.started)],
      ['ended', run.ended === null ? '' : moment(run.ended)],
      ['cluster', cluster
        ? element('a', {href: routeTo('cluster', [cluster.server, cluster.cluster.id])}, run.cluster) : run.cluster],
      ['reservation', run.reservation ?? ''],
      ['detached', run.detached ? 'yes' : ''],
      ['output', bytes(run.outputBytes)],
    ]);
  }
}
