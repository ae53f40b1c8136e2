import {now} from './clock.js';
import {element, setAttribute, setShown, setText} from './dom.js';
import {icon, setIcon} from './icons.js';
import {KeyedList} from './keyed-list.js';
import {routeTo} from './route.js';
import {runElapsed, runIcon, runOutcome, runProgram, runStateWord, runTitle} from './run-words.js';
import {clockTime, indices, moment, person} from './words.js';

/** As many rows at first, and more per click: five hundred servers remember fifteen thousand runs. */
const ROWS_PER_STEP = 150;

/** Runs as rows of a table. */
export class RunTable {
  #body = element('tbody');
  #rows;
  #more = element('button', {class: 'more', type: 'button'});
  #limit = ROWS_PER_STEP;
  #items = [];
  #table;

  constructor({showsServer}) {
    this.#rows = new KeyedList(this.#body, () => new RunRow(showsServer));
    const heads = ['State', 'Run', 'Owner', showsServer ? 'Server' : null, 'GPUs', 'Elapsed', 'Program and outcome'];
    this.#table = element('table', {class: 'list runs'},
      element('thead', {}, element('tr', {}, ...heads.filter(Boolean).map((head) =>
        element('th', {scope: 'col'}, head)))),
      this.#body);
    this.element = element('div', {class: 'list-box'}, this.#table, this.#more);
    this.#more.addEventListener('click', () => {
      this.#limit += ROWS_PER_STEP;
      this.show(this.#items);
    });
  }

  /** Shows `{server, run}` in this order. */
  show(items) {
    this.#items = items;
    const shown = items.slice(0, this.#limit);
    const keys = shown.map(({server, run}) => `${server.name}/${run.id}`);
    this.#rows.show(keys);
    shown.forEach((item, index) => this.#rows.get(keys[index]).show(item.server, item.run));
    setShown(this.#table, items.length > 0);
    if (setShown(this.#more, items.length > shown.length)) {
      setText(this.#more, `Show more (${items.length - shown.length} left)`);
    }
  }

  tick() {
    for (const row of this.#rows.values()) {
      row.tick();
    }
  }
}

class RunRow {
  #icon = icon('running');
  #state = element('span');
  #name = element('a', {class: 'cell-text', 'data-open': true});
  #id = element('span', {class: 'second'});
  #owner = element('td', {class: 'cell-owner'});
  #server = element('a');
  #gpus = element('td', {class: 'cell-gpus'});
  #elapsed = element('td', {class: 'cell-elapsed'});
  #program = element('span', {class: 'cell-text'});
  #outcome = element('span', {class: 'second'});
  #run = null;

  constructor(showsServer) {
    this.element = element('tr', {},
      element('td', {class: 'cell-state'}, this.#icon, this.#state),
      element('td', {class: 'cell-name'}, this.#name, this.#id),
      this.#owner,
      showsServer ? element('td', {class: 'cell-server'}, this.#server) : null,
      this.#gpus, this.#elapsed,
      element('td', {class: 'cell-outcome'}, this.#program, this.#outcome));
  }

  show(server, run) {
    if (this.#run === run) {
      return;
    }
    this.#run = run;
    setAttribute(this.element, 'data-run', run.id);
    setAttribute(this.element, 'data-state', run.state);
    setAttribute(this.element, 'data-outcome', runIcon(run));
    setIcon(this.#icon, runIcon(run));
    setText(this.#state, runStateWord(run));
    setText(this.#name, runTitle(run));
    setAttribute(this.#name, 'title', runTitle(run));
    setAttribute(this.#name, 'href', routeTo('run', [server.name, run.id]));
    setText(this.#id, [runTitle(run) === run.id ? '' : run.id, run.cluster ? `task of ${run.cluster}` : '']
      .filter(Boolean).join(', '));
    setText(this.#owner, person(run.user, run.host));
    setText(this.#server, server.name);
    setAttribute(this.#server, 'href', routeTo('server', [server.name]));
    setText(this.#gpus, run.gpus.length === 0 ? 'none' : indices(run.gpus));
    setAttribute(this.#elapsed, 'title', `submitted ${moment(run.submitted)}`);
    setText(this.#program, runProgram(run));
    setAttribute(this.#program, 'title', runProgram(run) || null);
    setText(this.#outcome, [runOutcome(run), run.ended === null ? '' : `at ${clockTime(run.ended, now())}`]
      .filter(Boolean).join(', '));
    this.tick();
  }

  tick() {
    setText(this.#elapsed, runElapsed(this.#run, now()));
  }
}
