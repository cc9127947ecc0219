// @ts-check
// Each budget in motion: what each region may use, of what it is made, and what it wants.

import { byId, element, keyed, setText } from './dom.js';
import { number, rate } from './units.js';

const COLUMNS = ['Region', 'Shares', 'Floor', 'Lent', 'Borrowed', 'Pool', 'May use', 'Demand', 'Admitted', 'Refused'];

/** In the order in which they are drawn. */
const PARTS = /** @type {const} */ (['own', 'borrowed', 'pool', 'lent']);

/** @param {{budgets: any[], total: number}} budgets */
export function showBudgets({ budgets, total }) {
  // in an order that does not follow the demand, so that nothing moves while it is read
  const ordered = budgets.toSorted((a, b) => order(nameOf(a), nameOf(b)));
  keyed(byId('budgets'), ordered, nameOf, card);
  byId('no-budgets').hidden = total > 0;
  const shown = total > budgets.length ? `${budgets.length} of ${total} budgets, those most in demand` : `${total} ${total === 1 ? 'budget' : 'budgets'}`;
  setText(byId('budgets-count'), total > 0 ? shown : '');
}

/** @param {any} budget */
function nameOf(budget) {
  return `${budget.policy} ${budget.subject}`;
}

/**
 * @param {string} a
 * @param {string} b
 */
function order(a, b) {
  return a < b ? -1 : Number(a > b);
}

/** @param {any} first */
function card(first) {
  const title = element('h3');
  const limit = element('span');
  const rows = element('tbody');
  const head = element('tr', '', ...COLUMNS.map(column));
  const scroll = element('div', 'scroll', element('table', '', element('thead', '', head), rows));
  scroll.tabIndex = 0;
  scroll.setAttribute('role', 'region');
  scroll.setAttribute('aria-label', `Shares of ${first.policy}, subject ${first.subject.slice(0, 8)}`);
  const node = element('li', '', element('div', 'head', title, limit), scroll);
  const update = (/** @type {any} */ budget) => {
    setText(title, `${budget.policy} · ${budget.subject.slice(0, 8)}`);
    title.title = budget.subject;
    const observed = budget.enforced ? '' : ', only observed';
    setText(limit, `limit ${budget.limit_in_words}${observed}`);
    const flows = budget.limit.rate > 0;
    const amount = (/** @type {any} */ capacity) => (flows ? capacity.rate : capacity.burst);
    const shares = Object.entries(budget.regions).map(([region, share]) => parts(region, share, amount));
    const scale = Math.max(amount(budget.limit), ...shares.map((share) => share.demand), 1e-9);
    const drawn = shares.map((share) => ({ share, scale, show: flows ? (/** @type {number} */ value) => rate(value, budget.period_ms) : number }));
    keyed(rows, drawn, ({ share }) => share.region, row);
  };
  return { node, update };
}

/** @param {string} name */
function column(name) {
  const head = element('th', name === 'Shares' ? 'wide' : '', name);
  head.setAttribute('scope', 'col');
  return head;
}

/**
 * What a region may use, in tokens per period or in units, part by part.
 * @param {string} region
 * @param {any} share
 * @param {(capacity: any) => number} amount
 */
function parts(region, share, amount) {
  const [floor, lent, borrowed, mayUse] = [share.floor, share.lent, share.borrowed, share.offered].map(amount);
  const own = Math.max(0, floor - lent);
  const pool = Math.max(0, mayUse - own - borrowed);
  const { demand, admitted, refused } = share;
  return { region, own, pool, demand, admitted, refused, floor, lent, borrowed, mayUse };
}

function row() {
  const name = element('th');
  name.setAttribute('scope', 'row');
  const segments = PARTS.map((part) => element('span', `part ${part}`));
  const demand = element('span', 'demand');
  const bar = element('div', 'bar', ...segments, demand);
  bar.setAttribute('aria-hidden', 'true');
  const cells = COLUMNS.slice(2).map(() => element('td'));
  const node = element('tr', '', name, element('td', 'wide', bar), ...cells);
  const update = (/** @type {{share: ReturnType<typeof parts>, scale: number, show: (value: number) => string}} */ { share, scale, show }) => {
    const width = (/** @type {number} */ value) => `${Math.min(100, (100 * value) / scale)}%`;
    setText(name, share.region);
    segments.forEach((segment, at) => { segment.style.width = width(share[PARTS[at]]); });
    demand.style.left = width(share.demand);
    const rates = [share.floor, share.lent, share.borrowed, share.pool, share.mayUse, share.demand].map(show);
    [...rates, number(share.admitted), number(share.refused)].forEach((text, at) => setText(cells[at], text));
    cells[5].className = share.demand > share.mayUse ? 'bad' : '';
  };
  return { node, update };
}
