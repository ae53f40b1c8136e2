/**
 * The registry's time. Browsers on wall screens are often minutes off; since all times come from the registry, "2 min ago"
 * is only right if "now" comes from there too.
 */

let ahead = 0;
let said = 0;

/** Called with the registry's time whenever a message brings it. */
export function setRegistryTime(milliseconds) {
  said = milliseconds;
  ahead = milliseconds - Date.now();
}

/** The registry's time as its last message said it: surely not in the future. */
export function lastSaid() {
  return said;
}

export function now() {
  return Date.now() + ahead;
}
