// @ts-check
// Which view is shown: the hash of the address, `#/path/of/parts?query`, so that every view can be linked to.

import { useEffect, useState } from './html.js';

/** @typedef {{path: string[], query: URLSearchParams}} Route */

/**
 * @param {string} hash
 * @returns {Route}
 */
export function parse(hash) {
  const [path, query] = (hash.startsWith('#/') ? hash.slice(2) : '').split('?', 2);
  return { path: path.split('/').filter(Boolean).map(decoded), query: new URLSearchParams(query ?? '') };
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * A link to a view. Parameters that are empty are left out.
 * @param {string[]} path
 * @param {Record<string, string | number | undefined>} [query]
 */
export function href(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${path.map(encodeURIComponent).join('/')}${search ? `?${search}` : ''}`;
}

/**
 * Shows the same view with other parameters, in place of the present entry of the history.
 * @param {Route} route
 * @param {Record<string, string | number | undefined>} query
 */
export function amend({ path, query: present }, query) {
  location.replace(href(path, { ...Object.fromEntries(present), ...query }));
}

export function useRoute() {
  const [route, setRoute] = useState(() => parse(location.hash));
  useEffect(() => {
    const follow = () => setRoute(parse(location.hash));
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  return route;
}
