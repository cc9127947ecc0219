// @ts-check
// What each region could use of a budget, of late: kept by the page from what it was told, within bounds. A reload keeps it.

/**
 * @typedef {{at: number, shares: Record<string, number>, demand: number, limit: number, admitted: number, refused: number}} Sample
 *   `at` in Unix milliseconds; amounts in tokens per period, or in units where nothing refills; admitted and refused in
 *   tokens since the coordinator knows of the budget.
 */

import { measure } from './units.js';

/** The span that is kept. */
export const KEPT_MS = 300_000;
/** No two samples are nearer. */
const GAP_MS = 1_000;
/** Budgets of which samples are kept. */
const MOST_BUDGETS = 40;
const STORED = 'quorate-shares';
/** Characters that are stored at most: a browser gives 5 MB to all. */
const MOST_STORED = 2_000_000;

/** @type {Map<string, Sample[]>} by budget, the one heard of last at the end */
const kept = restored();

/** @param {{policy: string, subject: string}} budget */
export function nameOf(budget) {
  return `${budget.policy} ${budget.subject}`;
}

/**
 * Keeps what was told of budgets now.
 * @param {any[]} budgets
 */
export function record(budgets) {
  const now = Date.now();
  for (const budget of budgets) {
    const name = nameOf(budget);
    const samples = kept.get(name) ?? [];
    const last = samples.at(-1);
    if (last && now - last.at < GAP_MS && now >= last.at) continue;
    samples.push(sample(budget, now));
    const first = samples.findIndex(({ at }) => now - at <= KEPT_MS);
    if (first > 0) samples.splice(0, first);
    kept.delete(name);
    kept.set(name, samples);
  }
  for (const name of kept.keys()) {
    if (kept.size <= MOST_BUDGETS) break;
    kept.delete(name);
  }
}

/**
 * @param {any} budget
 * @param {number} at
 * @returns {Sample}
 */
function sample(budget, at) {
  const { amount } = measure(budget);
  const regions = Object.entries(budget.regions);
  const sum = (/** @type {(share: any) => number} */ of) => regions.reduce((all, [, share]) => all + of(share), 0);
  return {
    at,
    shares: Object.fromEntries(regions.map(([region, share]) => [region, amount(share.offered)])),
    demand: sum((share) => share.demand),
    limit: amount(budget.limit),
    admitted: sum((share) => share.admitted),
    refused: sum((share) => share.refused),
  };
}

/**
 * What is kept of a budget, oldest first.
 * @param {{policy: string, subject: string}} budget
 */
export function samplesOf(budget) {
  return kept.get(nameOf(budget)) ?? [];
}

/** Over which the rate of refusals is taken. */
const RATE_MS = 10_000;

/**
 * Tokens refused in a second of late; nothing without two samples.
 * @param {{policy: string, subject: string}} budget
 */
export function refusedPerSecond(budget) {
  const samples = samplesOf(budget);
  const last = samples.at(-1);
  const first = last && samples.find(({ at }) => last.at - at <= RATE_MS);
  if (!last || !first || first === last) return null;
  return Math.max(0, last.refused - first.refused) / ((last.at - first.at) / 1000);
}

/** @returns {Map<string, Sample[]>} */
function restored() {
  try {
    const entries = JSON.parse(sessionStorage.getItem(STORED) ?? '[]');
    return new Map(entries.filter((/** @type {[string, Sample[]]} */ [, samples]) => Date.now() - (samples.at(-1)?.at ?? 0) < KEPT_MS));
  } catch {
    return new Map();
  }
}

addEventListener('pagehide', () => {
  try {
    const text = JSON.stringify([...kept]);
    if (text.length <= MOST_STORED) sessionStorage.setItem(STORED, text);
  } catch {
    // without storage a reload begins anew
  }
});
