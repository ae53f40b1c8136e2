import {duration, UNKNOWN} from './words.js';

/** What there is to say about a run, in words. */

const REASONS = {
  cancelled: 'cancelled', time_limit: 'time limit', out_of_memory: 'out of memory', idle: 'idle for too long',
  start_failed: 'did not start', image_not_found: 'image not found', not_reserved: 'lost its reservation',
  server_lost: 'server lost', disk_limit: 'disk limit',
};

/** What people call it: its name, else what it runs. */
export function runTitle(run) {
  return run.name || run.program || run.environment || run.id;
}

/** `train.py bert 30 in tensorflow`; without a program the image does what it does by itself. */
export function runProgram(run) {
  if (!run.environment) {
    return run.program;
  }
  return run.program ? `${run.program} in ${run.environment}` : `what ${run.environment} does by itself`;
}

/** The icon of its state; that of one that ended says how. */
export function runIcon(run) {
  if (run.state !== 'ended') {
    return run.state;
  }
  if (run.reason === 'cancelled') {
    return 'cancelled';
  }
  return run.exitCode === 0 ? 'succeeded' : 'failed';
}

export function runStateWord(run) {
  if (run.state === 'queued') {
    return run.ahead > 0 ? `queued, ${run.ahead} ahead` : 'queued, next';
  }
  return run.state;
}

/** `exit 0`, `exit 137, out of memory`, or what it waits for. */
export function runOutcome(run) {
  if (run.state !== 'ended') {
    return run.waitingBecause ? `waits for the server: ${run.waitingBecause}` : '';
  }
  const parts = [];
  if (run.exitCode !== null && !run.why.includes(`exit ${run.exitCode}`)) {
    parts.push(`exit ${run.exitCode}`);
  }
  if (run.reason && run.reason !== 'finished') {
    parts.push(REASONS[run.reason] ?? run.reason);
  }
  if (run.why) {
    parts.push(run.why);
  }
  return parts.join(', ') || 'ended';
}

/** How long it ran, or waits by now. */
export function runElapsed(run, now) {
  if (run.started === null) {
    return run.state === 'ended' ? UNKNOWN : duration(now - run.submitted);
  }
  return duration((run.ended ?? now) - run.started);
}

export function isActive(run) {
  return run.state !== 'ended';
}

/** Newest first, those that have not ended before all others. */
export function compareRuns(a, b) {
  if (isActive(a) !== isActive(b)) {
    return isActive(a) ? -1 : 1;
  }
  return isActive(a) ? b.submitted - a.submitted : (b.ended ?? b.submitted) - (a.ended ?? a.submitted);
}
