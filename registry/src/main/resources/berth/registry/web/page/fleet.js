import {Timeline} from './timeline.js';

/** One server as the registry last described it, and the time lines of its GPUs in the order of `server.gpus`. */
class ServerEntry {
  timelines = [];
  #byUuid = new Map();

  constructor(server) {
    this.replace(server);
  }

  get name() {
    return this.server.name;
  }

  /** Whether the registry watches it right now: only then its GPUs are known to be as shown. */
  get isUp() {
    return this.server.state === 'up';
  }

  replace(server) {
    this.server = server;
    const known = this.#byUuid;
    this.#byUuid = new Map(server.gpus.map((gpu) => [gpu.uuid, known.get(gpu.uuid) ?? new Timeline()]));
    this.timelines = server.gpus.map((gpu) => this.#byUuid.get(gpu.uuid));
  }

  timelineOf(uuid) {
    return this.#byUuid.get(uuid);
  }
}

/** All servers that the registry knows. Tells its listener what changed; draws nothing itself. */
export class Fleet {
  #entries = new Map();
  #sorted = null;
  #listener;

  /** The listener has `serversChanged(names)` and `sampled(names)`. */
  constructor(listener) {
    this.#listener = listener;
  }

  get size() {
    return this.#entries.size;
  }

  get(name) {
    return this.#entries.get(name);
  }

  /** All entries by name, gpu2 before gpu10. */
  all() {
    this.#sorted ??= [...this.#entries.values()].sort((a, b) => NATURAL.compare(a.name, b.name));
    return this.#sorted;
  }

  /** Takes an event `servers` of the wall. */
  applyServers(message) {
    const changed = new Set(message.servers.map((server) => server.name));
    for (const name of message.reset ? [...this.#entries.keys()] : []) {
      if (!changed.has(name)) {
        this.#entries.delete(name);
        changed.add(name);
        this.#sorted = null;
      }
    }
    for (const server of message.servers) {
      const entry = this.#entries.get(server.name);
      if (entry) {
        entry.replace(server);
      } else {
        this.#entries.set(server.name, new ServerEntry(server));
        this.#sorted = null;
      }
    }
    this.#listener.serversChanged(changed);
  }

  /** Takes an event `samples` of the wall. */
  applySamples(message) {
    const names = Object.keys(message.s);
    for (const name of names) {
      const entry = this.#entries.get(name);
      const samples = message.s[name];
      // A sample may overtake the list of GPUs that it belongs to, when a GPU has just been added or lost.
      if (entry && samples.length === entry.timelines.length) {
        samples.forEach((sample, index) => entry.timelines[index].add(message.t, sample ?? []));
      }
    }
    this.#listener.sampled(names);
  }

  /** The cluster of which a run is a task, with the server that supervises it; null if there is none. */
  clusterOfRun(serverName, runId) {
    for (const {server} of this.#entries.values()) {
      for (const cluster of server.clusters) {
        const isTask = cluster.tasks.some((task) =>
          task.attempts.some((attempt) => attempt.run === runId && attempt.server === serverName));
        if (isTask) {
          return {server: server.name, cluster};
        }
      }
    }
    return null;
  }
}

const NATURAL = new Intl.Collator(undefined, {numeric: true, sensitivity: 'base'});
