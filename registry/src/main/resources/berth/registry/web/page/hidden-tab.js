/** Browsers open six connections to a host at most: forgotten tabs must not keep them all. */
const HIDDEN_MILLIS = 60_000;

/**
 * Calls `onRest()` once the tab has been hidden for a minute, and `onSeen()` whenever it comes into sight again. Returns a
 * function that ends both.
 */
export function whileHidden(onRest, onSeen) {
  let rest = null;
  const changed = () => {
    clearTimeout(rest);
    if (document.hidden) {
      rest = setTimeout(onRest, HIDDEN_MILLIS);
    } else {
      onSeen();
    }
  };
  document.addEventListener('visibilitychange', changed);
  // A tab may be opened in the background and never looked at.
  if (document.hidden) {
    changed();
  }
  return () => {
    clearTimeout(rest);
    document.removeEventListener('visibilitychange', changed);
  };
}
