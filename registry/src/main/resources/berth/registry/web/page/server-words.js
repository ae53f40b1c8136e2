import {clockTime, count, duration, person, roughly} from './words.js';

/** What there is to say about a server, in words. */

/** Whether and since when it is away, or "". */
export function awaySentence(server, now) {
  if (server.state === 'gone') {
    return `gone since ${clockTime(server.since, now)} (${roughly(now - server.since)})`;
  }
  if (server.state === 'unreachable') {
    const since = `unreachable since ${clockTime(server.since, now)} (${roughly(now - server.since)})`;
    return server.why ? `${since}: ${server.why}` : since;
  }
  return '';
}

/** What is wrong or unusual while it is there, one sentence each. */
export function serverNotes(server) {
  const notes = [];
  if (server.problem) {
    notes.push({kind: 'problem', text: server.problem});
  }
  if (server.draining) {
    notes.push({kind: 'draining', text: 'draining: nothing new is granted, what is reserved may finish'});
  }
  if (!server.canRun && !server.problem) {
    notes.push({kind: 'problem', text: 'cannot run containers; reservations only'});
  }
  return notes;
}

/** `8 × A100 80GB`, or all models if they differ, or that there is none. */
export function modelsSentence(server) {
  const models = new Map();
  for (const gpu of server.gpus) {
    const model = shortModel(gpu.model);
    models.set(model, (models.get(model) ?? 0) + 1);
  }
  return models.size === 0 ? 'no GPU' : [...models].map(([model, number]) => `${number} × ${model}`).join(', ');
}

/** Without the maker's name, which all of them have. */
export function shortModel(model) {
  return model.replace(/\bNVIDIA (?:GeForce )?/, '');
}

export function hasOneModel(server) {
  return new Set(server.gpus.map((gpu) => gpu.model)).size <= 1;
}

/** GPUs that somebody could have right now. */
export function freeGpus(server) {
  const grants = server.state === 'up' && !server.draining;
  return grants ? server.gpus.filter((gpu) => gpu.state === 'free').length : 0;
}

/** `ann@laptop waits 5m for 2 GPUs: ablation study`. */
export function waitingSentence(request, now) {
  const wanted = request.gpus < 0 ? 'all GPUs' : count(request.gpus, 'GPU');
  const purpose = request.purpose ? `: ${request.purpose}` : '';
  const because = request.waitingBecause ? ` (${request.waitingBecause})` : '';
  return `${person(request.user, request.host)} waits ${duration(now - request.since)} for ${wanted}${purpose}${because}`;
}
