/** How numbers and times are written. What is not known is a dash, never a zero. */

export const UNKNOWN = '–';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const CLOCK = new Intl.DateTimeFormat(undefined, {hour: '2-digit', minute: '2-digit', hourCycle: 'h23'});
const CLOCK_SECONDS =
  new Intl.DateTimeFormat(undefined, {hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23'});
const DATE = new Intl.DateTimeFormat(undefined, {day: 'numeric', month: 'short'});
const MOMENT = new Intl.DateTimeFormat(undefined, {dateStyle: 'medium', timeStyle: 'medium', hourCycle: 'h23'});

/** A length of time in at most two units: `42s`, `12m`, `3h 05m`, `2d 4h`. */
export function duration(milliseconds) {
  const time = Math.max(0, milliseconds);
  if (time < MINUTE) {
    return `${Math.floor(time / SECOND)}s`;
  }
  if (time < 10 * MINUTE) {
    return `${Math.floor(time / MINUTE)}m ${twoDigits((time % MINUTE) / SECOND)}s`;
  }
  if (time < HOUR) {
    return `${Math.floor(time / MINUTE)}m`;
  }
  if (time < DAY) {
    return `${Math.floor(time / HOUR)}h ${twoDigits((time % HOUR) / MINUTE)}m`;
  }
  return `${Math.floor(time / DAY)}d ${Math.floor((time % DAY) / HOUR)}h`;
}

/** A length of time in one unit, for sentences: `42 s`, `2 min`, `3 h`, `2 days`. */
export function roughly(milliseconds) {
  const time = Math.max(0, milliseconds);
  if (time < MINUTE) {
    return `${Math.floor(time / SECOND)} s`;
  }
  if (time < HOUR) {
    return `${Math.floor(time / MINUTE)} min`;
  }
  if (time < 2 * DAY) {
    return `${Math.floor(time / HOUR)} h`;
  }
  return `${Math.floor(time / DAY)} days`;
}

function twoDigits(number) {
  return String(Math.floor(number)).padStart(2, '0');
}

/** `14:02`, with the day before it if that was not within the last twelve hours or so. */
export function clockTime(at, now) {
  const near = Math.abs(now - at) < 12 * HOUR;
  return near ? CLOCK.format(at) : `${DATE.format(at)} ${CLOCK.format(at)}`;
}

export function clockSeconds(at) {
  return CLOCK_SECONDS.format(at);
}

/** The whole date and time, for tooltips and detail pages. */
export function moment(at) {
  return at === null || at === undefined ? UNKNOWN : MOMENT.format(at);
}

export function whole(number) {
  return isKnown(number) ? String(Math.round(number)) : UNKNOWN;
}

/** MiB as GiB: three digits at most, so that columns stay narrow. */
export function gibibytes(mebibytes) {
  if (!isKnown(mebibytes)) {
    return UNKNOWN;
  }
  const size = mebibytes / 1024;
  return size >= 99.5 || Number.isInteger(size) ? String(Math.round(size)) : size.toFixed(1);
}

/** A size that never changes, such as all of the memory: its tenths tell nothing. */
export function wholeGibibytes(mebibytes) {
  return isKnown(mebibytes) && mebibytes >= 10 * 1024 ? String(Math.round(mebibytes / 1024)) : gibibytes(mebibytes);
}

export function bytes(count) {
  if (!isKnown(count)) {
    return UNKNOWN;
  }
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let size = count;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit++;
  }
  return unit === 0 || size >= 99.5 ? `${Math.round(size)} ${units[unit]}` : `${size.toFixed(1)} ${units[unit]}`;
}

export function watts(power) {
  if (!isKnown(power)) {
    return UNKNOWN;
  }
  return power >= 10_000 ? `${(power / 1000).toFixed(1)} kW` : `${Math.round(power)} W`;
}

/** `1 GPU`, `2 GPUs`. */
export function count(number, noun) {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

/** `ann@laptop`, or what of it is known. */
export function person(user, host) {
  if (!user) {
    return host || UNKNOWN;
  }
  return host ? `${user}@${host}` : user;
}

/** GPUs by their numbers: `0–3,6`. */
export function indices(numbers) {
  const sorted = [...(numbers ?? [])].sort((a, b) => a - b);
  const parts = [];
  for (let first = 0; first < sorted.length; ) {
    let last = first;
    while (last + 1 < sorted.length && sorted[last + 1] === sorted[last] + 1) {
      last++;
    }
    parts.push(last - first >= 2 ? `${sorted[first]}–${sorted[last]}` : sorted.slice(first, last + 1).join(','));
    first = last + 1;
  }
  return parts.join(',');
}

export function isKnown(number) {
  return typeof number === 'number' && !Number.isNaN(number);
}
