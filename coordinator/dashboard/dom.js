// @ts-check
// Building and updating the page. Text from the coordinator is only ever set as text.

/**
 * A new element with text or children.
 * @param {string} tag
 * @param {string} [classes]
 * @param {(string | Node)[]} children
 */
export function element(tag, classes = '', ...children) {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  made.append(...children);
  return made;
}

/**
 * Sets text where it differs, so that nothing is read out or selected anew without need.
 * @param {Element} node
 * @param {string} text
 */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** @param {string} id */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found;
}

/**
 * Makes the children of a list those of the items, in their order. An item keeps its element,
 * and with it focus and what is unfolded.
 * @template T
 * @param {Element} list
 * @param {T[]} items
 * @param {(item: T) => string} keyOf
 * @param {(item: T) => {node: Element, update: (item: T) => void}} create
 */
export function keyed(list, items, keyOf, create) {
  /** @type {Map<string, {node: Element, update: (item: T) => void}>} */
  const known = keyed.lists.get(list) ?? new Map();
  /** @type {typeof known} */
  const now = new Map();
  items.forEach((item, at) => {
    const key = keyOf(item);
    const entry = known.get(key) ?? create(item);
    entry.update(item);
    now.set(key, entry);
    if (list.children[at] !== entry.node) list.insertBefore(entry.node, list.children[at] ?? null);
  });
  while (list.children.length > items.length) list.lastElementChild?.remove();
  keyed.lists.set(list, now);
}
/** @type {WeakMap<Element, Map<string, any>>} */
keyed.lists = new WeakMap();

/**
 * A list of names and values.
 * @param {Element} list
 * @param {[string, string][]} facts
 */
export function showFacts(list, facts) {
  keyed(list, facts, ([name]) => name, ([name]) => {
    const value = element('dd');
    const node = element('div', '', element('dt', '', name), value);
    return { node, update: ([, text]) => setText(value, text) };
  });
}
