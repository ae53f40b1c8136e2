/**
 * The registry's time. Browsers on wall screens are often minutes off; since all times come from the registry, "2 min ago"
 * is only right if "now" comes from there too.
 */

let ahead = 0;

/** Called with the registry's time whenever a message brings it. */
export function setRegistryTime(milliseconds) {
  ahead = milliseconds - Date.now();
}

export function now() {
  return Date.now() + ahead;
}
