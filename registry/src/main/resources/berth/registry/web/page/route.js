/**
 * Where the page is, written after the `#` of its address so that it can be sent to a colleague:
 * `#/`, `#/wall`, `#/runs`, `#/clusters`, `#/queue`, `#/server/NAME`, `#/run/SERVER/ID`, `#/cluster/SERVER/ID`, each with
 * the text of the filter as `?q=`.
 */

const LISTS = ['runs', 'clusters', 'queue', 'wall'];
const DETAILS = {server: 1, run: 2, cluster: 2};

/** Reads an address: `{view, parts, filter}`. One that means nothing is that of the overview. */
export function parseRoute(hash) {
  const [path, query = ''] = hash.replace(/^#/, '').split(/\?(.*)/s);
  const filter = new URLSearchParams(query).get('q') ?? '';
  const [first = '', ...parts] = path.split('/').filter((part) => part !== '').map(decoded);
  if (LISTS.includes(first)) {
    return {view: first, parts: [], filter};
  }
  if (first in DETAILS && parts.length === DETAILS[first]) {
    return {view: first, parts, filter};
  }
  return {view: 'servers', parts: [], filter};
}

/** Writes an address. */
export function routeTo(view, parts = [], filter = '') {
  const path = [...(view === 'servers' ? [] : [view]), ...parts].map(encodeURIComponent).join('/');
  return `#/${path}${filter === '' ? '' : `?q=${encodeURIComponent(filter)}`}`;
}

export function isDetail(view) {
  return view in DETAILS;
}

/** The list that a detail page belongs to. */
export function listOf(view) {
  return {server: 'servers', run: 'runs', cluster: 'clusters'}[view] ?? view;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
