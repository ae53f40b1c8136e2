import {count, duration} from './words.js';

/** What there is to say about a cluster, in words. */

const PHASE_ICONS = {new: 'queued', waiting: 'queued', starting: 'preparing', running: 'running', restarting: 'preparing',
  stopping: 'ending', kept: 'ending'};

export function clusterIcon(cluster) {
  if (cluster.phase !== 'ended') {
    return PHASE_ICONS[cluster.phase] ?? 'running';
  }
  return {succeeded: 'succeeded', cancelled: 'cancelled'}[cluster.outcome] ?? 'failed';
}

export function clusterPhase(cluster) {
  return cluster.phase === 'ended' && cluster.outcome ? cluster.outcome.replace('_', ' ') : cluster.phase;
}

/** Why it is as it is: what it waits for, or how it ended. */
export function clusterWhy(cluster) {
  const parts = [];
  if (cluster.phase === 'waiting' && cluster.waitingFor) {
    parts.push(`waits for ${cluster.waitingFor}`);
  }
  if (cluster.why) {
    parts.push(cluster.why);
  }
  if (cluster.exitCode !== null && cluster.exitCode !== 0 && !cluster.why.includes(`exit ${cluster.exitCode}`)) {
    parts.push(`exit ${cluster.exitCode}`);
  }
  return parts.join(', ');
}

/** Everything that had to begin again, or "" if nothing had. */
export function clusterRestarts(cluster) {
  return [
    cluster.restarts > 0 ? count(cluster.restarts, 'restart') : '',
    cluster.resubmissions > 0 ? count(cluster.resubmissions, 'resubmission') : '',
    cluster.supervisorRestarts > 0 ? `supervisor restarted ${cluster.supervisorRestarts}×` : '',
  ].filter(Boolean).join(', ');
}

export function clusterElapsed(cluster, now) {
  return duration((cluster.ended ?? now) - (cluster.formed ?? cluster.submitted));
}

export function compareClusters(a, b) {
  const ended = (cluster) => cluster.phase === 'ended';
  return ended(a) !== ended(b) ? (ended(a) ? 1 : -1) : b.submitted - a.submitted;
}
