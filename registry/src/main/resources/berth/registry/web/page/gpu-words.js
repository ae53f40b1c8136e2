import {gibibytes, person, wholeGibibytes} from './words.js';

/** What there is to say about a GPU, in words; the cards, tiles and tooltips say the same. */

/** The states in the order in which totals and bars show them. */
export const GPU_STATES = ['free', 'reserved', 'locked', 'used', 'unhealthy'];

/** For people: "used" alone would not tell that it is by somebody whom nobody gave the GPU. */
const STATE_WORDS = {free: 'free', reserved: 'reserved', locked: 'locked', used: 'strangers', unhealthy: 'unhealthy'};

export function stateWord(gpu) {
  return gpu.state === 'unhealthy' && gpu.health !== 'healthy' ? gpu.health : STATE_WORDS[gpu.state] ?? gpu.state;
}

/** Why it is not well and what to do about it, or "". */
export function healthSentence(gpu) {
  if (gpu.health === 'healthy' && gpu.state !== 'unhealthy') {
    // The administrator uses it in spite of what the driver says.
    return gpu.healthAdvice ? `still needed: ${gpu.healthAdvice}` : '';
  }
  const why = gpu.healthReason ? `${gpu.health}: ${gpu.healthReason}` : gpu.health;
  return gpu.healthAdvice ? `${why}; to bring it back: ${gpu.healthAdvice}` : why;
}

export function strangerSentence(stranger) {
  const who = stranger.user ?? 'unknown user';
  const what = stranger.command ?? `process ${stranger.pid}`;
  const memory = stranger.memory === null ? '' : `, ${gibibytes(stranger.memory)} GiB`;
  return `${who}: ${what} (${stranger.pid}${memory})`;
}

/** Who has it, in few words: for places where there is only room for a name. */
export function shortHolder(gpu) {
  if (gpu.holder) {
    return gpu.holder.user || gpu.holder.host || 'reserved';
  }
  if (gpu.state === 'unhealthy') {
    return gpu.health;
  }
  if (gpu.strangers.length > 0) {
    return gpu.strangers[0].user ?? `pid ${gpu.strangers[0].pid}`;
  }
  return gpu.lockedBy || STATE_WORDS[gpu.state];
}

/** Everything in several lines, for tooltips. */
export function describeGpu(server, gpu, latest) {
  const [util, memory, temperature, power] = latest;
  const numbers = [
    Number.isNaN(util) ? null : `${Math.round(util)} %`,
    Number.isNaN(memory) ? null : `${gibibytes(memory)} of ${wholeGibibytes(gpu.memoryTotal)} GiB`,
    Number.isNaN(temperature) ? null : `${Math.round(temperature)} °C`,
    Number.isNaN(power) ? null : `${Math.round(power)} W`,
  ].filter(Boolean).join(', ');
  return [
    `${server.name} GPU ${gpu.index}: ${stateWord(gpu)}`,
    gpu.model,
    numbers,
    gpu.holder ? [person(gpu.holder.user, gpu.holder.host), gpu.holder.purpose].filter(Boolean).join(', ') : '',
    gpu.lockedBy ? `locked by ${gpu.lockedBy}` : '',
    ...gpu.strangers.map(strangerSentence),
    healthSentence(gpu),
  ].filter(Boolean).join('\n');
}
