/**
 * The page of the registry: puts the parts together.
 *
 * For tests in a browser, these stay as they are:
 * - `body[data-view]`: servers, wall, runs, clusters, queue, server, run, cluster; `body[data-wall]` in wall mode,
 *   `body[data-stale]` while the connection is lost, or rests in a hidden tab
 * - `#connection[data-connected=true|false]`, `#banner`, `#filter`, `#help`, `[data-total=free]` and so on
 * - `[data-server=NAME]` with `data-state` up, unreachable or gone, and `data-draining`; the GPUs in it are there as soon
 *   as it has been in sight
 * - `[data-gpu=UUID]` with `data-state`, `data-old` without a sample of now and, in rows, `data-health` and `[data-metric]`
 * - `[data-run=ID]` with `data-state`, `[data-cluster=ID]` with `data-phase`, both with `data-outcome` in lists;
 *   `[data-task=NAME]`, `[data-attempt=NUMBER]`, `[data-waiting]`
 * - `#output-task` in a cluster's view, the task whose output is shown
 * - `#output` with `.line[data-stream=out|err]`, `.output-status`, `.follow`
 * - `[data-cancel]` opens `dialog[data-dialog=cancel]`, in which `[data-confirm]` cancels
 */

import {setRegistryTime} from './clock.js';
import {ClusterView} from './cluster-view.js';
import {ConnectionState} from './connection-state.js';
import {setAttribute, setShown, setText} from './dom.js';
import {Filter} from './filter.js';
import {Fleet} from './fleet.js';
import {paintSoon} from './frames.js';
import {PastSamples} from './history.js';
import {ClustersView, QueueView, RunsView} from './lists.js';
import {Overview} from './overview.js';
import {isDetail, listOf, parseRoute, routeTo} from './route.js';
import {RunView} from './run-view.js';
import {ServerView} from './server-view.js';
import {Shortcuts} from './shortcuts.js';
import {Theme} from './theme.js';
import {countFleet, TotalsLine} from './totals.js';
import {Wall} from './wall.js';
import {WallConnection} from './wall-connection.js';
import {clockTime} from './words.js';

const RELOADED_FOR = 'berth.reloaded-for';
const GO = {s: 'servers', r: 'runs', c: 'clusters', q: 'queue', w: 'wall'};

class Page {
  #fleet = new Fleet(this);
  #past = new PastSamples(this.#fleet, (name) => this.#view?.pastLoaded?.(name));
  #overview = new Overview(this.#fleet, this.#past);
  #wall = new Wall(this.#overview);
  #totals = new TotalsLine((text) => this.#filterBy(text));
  #views = {
    servers: this.#overview,
    wall: this.#overview,
    runs: new RunsView(this.#fleet),
    clusters: new ClustersView(this.#fleet),
    queue: new QueueView(this.#fleet),
    server: new ServerView(this.#fleet, this.#past),
    run: new RunView(this.#fleet, this.#past),
    cluster: new ClusterView(this.#fleet),
  };
  #view = null;
  #route = null;
  #version = null;
  #membership = '';
  #isInside = false;
  #main = document.getElementById('main');
  #filter = document.getElementById('filter');
  #help = document.getElementById('help');
  #connection =
    new ConnectionState(document.getElementById('connection'), document.getElementById('banner'));

  start() {
    document.getElementById('totals').replaceWith(this.#totals.element);
    const themeButton = document.getElementById('theme');
    const theme = new Theme((choice) => {
      setText(themeButton.querySelector('.tool-word'), choice);
      setAttribute(themeButton, 'aria-label', `Theme: ${choice}`);
    });
    const density = () => setText(
      document.getElementById('density').querySelector('.tool-word'), this.#overview.nextDensity() ?? 'auto');
    const actions = {
      go: (letter) => letter in GO && this.#go(routeTo(GO[letter], [], this.#filter.value)),
      search: () => {
        if (this.#route.view === 'wall') {
          this.#toggleWall();
        }
        this.#filter.focus();
        this.#filter.select();
      },
      help: () => this.#help.showModal(),
      wall: () => this.#toggleWall(),
      theme: () => theme.next(),
      density,
      escape: () => this.#escape(),
    };
    new Shortcuts(actions);
    themeButton.addEventListener('click', actions.theme);
    document.getElementById('density').addEventListener('click', actions.density);
    document.getElementById('wall').addEventListener('click', actions.wall);
    document.getElementById('leave-wall').addEventListener('click', actions.wall);
    document.getElementById('show-help').addEventListener('click', actions.help);
    document.getElementById('close-help').addEventListener('click', () => this.#help.close());
    document.getElementById('skip').addEventListener('click', (event) => {
      // Its address would be taken for a view.
      event.preventDefault();
      this.#main.focus();
    });
    this.#filter.addEventListener('input', () => this.#filterTyped());
    window.addEventListener('hashchange', (event) => {
      this.#isInside = true;
      this.#follow();
      this.#focusWhereOneCameFrom(new URL(event.oldURL).hash);
    });
    this.#follow();
    setInterval(() => this.#tick(), 1000);
    new WallConnection(this).open();
  }

  // What the connection tells.

  connected() {
    this.#connection.connected();
    this.#past.forget();
  }

  disconnected(since) {
    this.#connection.disconnected(since);
  }

  resting(since) {
    this.#connection.resting(since);
  }

  event(name, data) {
    if (name === 'hello') {
      this.#hello(data);
    } else if (name === 'servers') {
      setRegistryTime(data.now);
      this.#fleet.applyServers(data);
      if (data.reset) {
        this.#view?.wantPast?.();
      }
    } else if (name === 'samples') {
      setRegistryTime(data.t);
      this.#fleet.applySamples(data);
    }
  }

  #hello(hello) {
    setRegistryTime(hello.now);
    // Another version may speak otherwise than these scripts do. Once per version, so that two registries of different
    // versions behind one address do not make the page reload for ever.
    if (this.#version !== null && this.#version !== hello.version && reloadOnceFor(hello.version)) {
      return;
    }
    this.#version = hello.version;
    setText(document.getElementById('registry'), hello.registry ?? '');
    document.getElementById('registry').title = `berth-registry ${hello.version}`;
    this.#views.run.mayCancel = hello.mayCancel === true;
    this.#views.cluster.mayCancel = hello.mayCancel === true;
  }

  // What the fleet tells.

  serversChanged(names) {
    this.#view?.serversChanged(names);
    paintSoon(this);
    const membership = this.#fleet.all().map((entry) => `${entry.name} ${entry.server.gpus.length}`).join('\n');
    if (membership !== this.#membership) {
      this.#membership = membership;
      this.#wall.refit();
    }
  }

  sampled(names) {
    this.#view?.sampled(names);
    paintSoon(this);
  }

  /** Totals, the counts in the navigation, and the title. */
  paint() {
    const totals = countFleet(this.#fleet.all());
    this.#totals.show(totals);
    for (const [id, number] of [['runs', totals.runs], ['clusters', totals.clusters], ['queue', totals.waiting]]) {
      const badge = document.querySelector(`[data-nav=${id}] .badge`);
      if (setShown(badge, number > 0)) {
        setText(badge, String(number));
      }
    }
    const title = this.#fleet.size === 0 ? 'Berth' : `${totals.free} free · Berth`;
    if (document.title !== title) {
      document.title = title;
    }
  }

  #tick() {
    this.#connection.show();
    this.#view?.tick();
    // Samples that stay away make the total power unknown.
    paintSoon(this);
    setText(document.getElementById('wall-clock'), clockTime(Date.now(), Date.now()));
  }

  /** Shows what the address says. */
  #follow() {
    const route = parseRoute(location.hash);
    const view = this.#views[route.view];
    const isSame = this.#view === view && !isDetail(route.view);
    this.#route = route;
    if (this.#filter.value !== route.filter) {
      this.#filter.value = route.filter;
    }
    document.body.dataset.view = route.view;
    for (const link of document.querySelectorAll('[data-nav]')) {
      setAttribute(link, 'aria-current', link.dataset.nav === listOf(route.view) ? 'page' : null);
      link.setAttribute('href', routeTo(link.dataset.nav, [], route.filter));
    }
    if (isSame) {
      view.filterChanged(new Filter(route.filter));
    } else {
      this.#view?.close();
      this.#view = view;
      this.#main.replaceChildren(view.element);
      view.open(route, new Filter(route.filter));
      window.scrollTo(0, 0);
    }
    setShown(document.querySelector('.totals'), !isDetail(route.view));
    this.#paintBack(route);
    this.#wall.set(route.view === 'wall');
  }

  /** Who comes back from a detail page goes on at its row; who opens something goes on at its beginning. */
  #focusWhereOneCameFrom(hash) {
    if (document.activeElement !== this.#filter) {
      const links = [...this.#main.querySelectorAll('[data-open]')];
      const link = links.find((one) => one.getAttribute('href') === hash);
      (link ?? this.#main).focus({preventScroll: !link});
    }
  }

  #paintBack(route) {
    if (setShown(document.getElementById('back'), isDetail(route.view))) {
      const list = listOf(route.view);
      const link = document.querySelector('#back a');
      setText(link, `All ${list}`);
      link.setAttribute('href', routeTo(list));
    }
  }

  #filterTyped() {
    // A detail page has nothing to filter; typing there means to search everything.
    const view = isDetail(this.#route.view) ? listOf(this.#route.view) : this.#route.view;
    const hash = routeTo(view, this.#route.view === view ? this.#route.parts : [], this.#filter.value);
    history.replaceState(null, '', hash);
    this.#follow();
  }

  #filterBy(text) {
    this.#filter.value = this.#filter.value.trim() === text ? '' : text;
    this.#go(routeTo(this.#route.view === 'wall' ? 'wall' : 'servers', [], this.#filter.value));
  }

  #go(hash) {
    if (location.hash !== hash) {
      history.pushState(null, '', hash);
      this.#isInside = true;
      this.#follow();
    }
    return true;
  }

  #toggleWall() {
    const isWall = this.#route.view === 'wall';
    this.#go(routeTo(isWall ? 'servers' : 'wall', [], this.#filter.value));
  }

  #escape() {
    if (this.#filter.value !== '' && (document.activeElement === this.#filter || !isDetail(this.#route.view))) {
      this.#filter.value = '';
      this.#filterTyped();
      return;
    }
    if (document.activeElement === this.#filter) {
      this.#filter.blur();
    } else if (this.#route.view === 'wall') {
      this.#toggleWall();
    } else if (isDetail(this.#route.view)) {
      // Back to where one came from, with its filter and place; from a link that somebody sent, up to the list.
      if (this.#isInside) {
        history.back();
      } else {
        this.#go(routeTo(listOf(this.#route.view)));
      }
    }
  }
}

/** Reloads, and says so, unless this tab has done that for this version already. */
function reloadOnceFor(version) {
  try {
    if (sessionStorage.getItem(RELOADED_FOR) === version) {
      return false;
    }
    sessionStorage.setItem(RELOADED_FOR, version);
  } catch {
    // Without storage there is nothing that would stop the second reload.
    return false;
  }
  location.reload();
  return true;
}

new Page().start();
