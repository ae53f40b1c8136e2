/**
 * The text of the filter box: words that must all match, over everything that is known of a thing, or over one field of it
 * as in `user:ann`; a minus before a word excludes. `"two words"` may be quoted.
 */

const FIELDS = ['state', 'user', 'gpu', 'server', 'run', 'cluster', 'label', 'service'];

export class Filter {
  #words;

  constructor(text) {
    this.text = text;
    this.#words = [...text.toLowerCase().matchAll(/(-?)(?:([a-z]+):)?(?:"([^"]*)"?|(\S+))/g)]
      .map(([whole, minus, field, quoted, plain]) => {
        const known = FIELDS.includes(field);
        return {
          field: known ? field : null,
          wanted: known || !field ? quoted ?? plain : whole.slice(minus.length).replaceAll('"', ''),
          excludes: minus === '-',
        };
      })
      .filter((word) => word.wanted !== '');
  }

  get isEmpty() {
    return this.#words.length === 0;
  }

  /**
   * Which GPUs of a server match: null if the server does not, otherwise a set of indices into `server.gpus`. All of them if
   * it is the server that was asked for, or something of it that is on no GPU, such as who waits there.
   */
  gpusOf(server) {
    if (this.isEmpty) {
      return EVERYTHING;
    }
    const facts = factsOfServer(server);
    const matching = new Set();
    facts.gpus.forEach((gpu, index) => {
      if (this.#matches(gpu)) {
        matching.add(index);
      }
    });
    if (matching.size > 0) {
      return matching.size === facts.gpus.length ? EVERYTHING : matching;
    }
    return this.#matches(facts.server) ? EVERYTHING : null;
  }

  matchesRun(server, run) {
    return this.isEmpty || this.#matches(remembered(run, () => factsOfRun(server, run)));
  }

  matchesCluster(server, cluster) {
    return this.isEmpty || this.#matches(remembered(cluster, () => factsOfCluster(server, cluster)));
  }

  matchesWaiting(server, request) {
    return this.isEmpty || this.#matches(remembered(request, () => factsOfWaiting(server, request)));
  }

  #matches(facts) {
    return this.#words.every(({field, wanted, excludes}) => {
      const text = field === null ? facts.all : facts[field] ?? '';
      // States are whole words: "state:up" is not "state:cut up", and "state:used" finds no unused one.
      const found = field === 'state' ? text.split('\n').includes(wanted) : text.includes(wanted);
      return found !== excludes;
    });
  }
}

/** A set that has everything, for the usual case without a filter. */
const EVERYTHING = {has: () => true, isEverything: true};

/** Facts by the object that they were taken from: the registry replaces objects whole, so they never get old. */
const memory = new WeakMap();

function remembered(thing, find) {
  let facts = memory.get(thing);
  if (!facts) {
    facts = find();
    memory.set(thing, facts);
  }
  return facts;
}

function factsOfServer(server) {
  return remembered(server, () => {
    const own = {
      server: [server.name, server.address],
      state: [server.state, server.draining ? 'draining' : '', server.problem ? 'problem' : '',
        server.simulated ? 'simulated' : ''],
      label: Object.entries(server.labels ?? {}).map(([key, value]) => `${key}=${value}`),
      service: server.services,
    };
    const gpus = server.gpus.map((gpu) => joined({
      ...own,
      state: [gpu.state, gpu.health, ...own.state],
      gpu: [gpu.model, gpu.uuid],
      user: [gpu.holder?.user, ...gpu.strangers.map((stranger) => stranger.user)],
      run: gpu.holder?.runs,
      other: [gpu.holder?.host, gpu.holder?.purpose, gpu.holder?.reservation, gpu.lockedBy, gpu.healthReason,
        ...gpu.strangers.map((stranger) => stranger.command)],
    }));
    return {
      gpus,
      server: joined({
        ...own,
        gpu: server.gpus.map((gpu) => gpu.model),
        user: [...server.queue.map((request) => request.user), ...server.runs.map((run) => run.user),
          ...server.clusters.map((cluster) => cluster.user)],
        run: server.runs.flatMap((run) => [run.id, run.name]),
        cluster: server.clusters.flatMap((cluster) => [cluster.id, cluster.name]),
        other: [server.problem, server.why, ...server.queue.map((request) => request.purpose)],
      }),
    };
  });
}

function factsOfRun(server, run) {
  return joined({
    server: [server.name],
    state: [run.state, run.reason, run.state === 'ended' ? outcomeWord(run.exitCode) : ''],
    user: [run.user],
    gpu: server.gpus.filter((gpu) => run.gpus.includes(gpu.index)).map((gpu) => gpu.model),
    run: [run.id, run.name],
    cluster: [run.cluster],
    service: [run.environment],
    other: [run.host, run.program, run.reservation, run.why, run.waitingBecause],
  });
}

function factsOfCluster(server, cluster) {
  const attempts = cluster.tasks.flatMap((task) => task.attempts);
  return joined({
    server: [server.name, ...attempts.map((attempt) => attempt.server)],
    state: [cluster.phase, cluster.outcome],
    user: [cluster.user],
    run: attempts.map((attempt) => attempt.run),
    cluster: [cluster.id, cluster.name],
    other: [cluster.host, cluster.why, cluster.waitingFor],
  });
}

function factsOfWaiting(server, request) {
  return joined({
    server: [server.name],
    state: ['waiting', 'queued'],
    user: [request.user],
    gpu: server.gpus.map((gpu) => gpu.model),
    other: [request.host, request.purpose, request.waitingBecause],
  });
}

function outcomeWord(exitCode) {
  return exitCode === 0 ? 'succeeded' : 'failed';
}

/** Joins the lists to lower-case texts, one per field and one of everything. */
function joined(lists) {
  const facts = {};
  for (const [field, list] of Object.entries(lists)) {
    facts[field] = (list ?? []).filter(Boolean).join('\n').toLowerCase();
  }
  facts.all = Object.values(facts).join('\n');
  return facts;
}
