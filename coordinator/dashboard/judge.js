// @ts-check
// What numbers mean: of a policy, of a region, of a refusal. In words and a tone.

import { measure, tokens } from './units.js';

/** @typedef {[string, 'good' | 'warn' | 'bad']} Verdict */

/**
 * @param {any} policy
 * @returns {Verdict}
 */
export function ofPolicy(policy) {
  if (policy.alarms.length > 0) return ['internal check failed', 'bad'];
  if (policy.measured_beyond_bound > 0) return [`bound broken by ${tokens(policy.measured_beyond_bound)}`, 'bad'];
  if (policy.mode === 'observe') return ['observes, refuses nothing', 'warn'];
  if (policy.mode !== 'enforce') return [`${policy.mode}, observes the rest`, 'warn'];
  if (policy.overshoot_bound === null) return ['unbounded', 'warn'];
  return ['within the bound', 'good'];
}

const TONES = { bad: 0, warn: 1, good: 2 };

/**
 * Those that somebody should look at first, then by name.
 * @param {any[]} policies
 */
export function worstFirst(policies) {
  return policies.toSorted((a, b) => TONES[ofPolicy(a)[1]] - TONES[ofPolicy(b)[1]] || (a.policy < b.policy ? -1 : 1));
}

/**
 * @param {any} region
 * @returns {Verdict}
 */
export function ofRegion(region) {
  if (region.mode === 'conflict') return ['conflict: two stores serve it', 'bad'];
  if (region.state === 'expired') return ['cut off, on its floor', 'bad'];
  if (region.state !== 'live') return ['not heard of, on its floor', 'warn'];
  if (region.store.kind && !region.store.healthy) return ['leased, its store fails', 'bad'];
  return ['leased', 'good'];
}

/**
 * Why requests of a budget are refused now, region by region, in sentences.
 * @param {any} budget
 * @param {any[]} regions as the coordinator sees them
 * @returns {string[]}
 */
export function whyRefused(budget, regions) {
  const { amount, show } = measure(budget);
  if (budget.alarm) return [`An internal check failed (${budget.alarm}): nothing is granted, each region goes by its floor.`];
  if (!budget.enforced) return ['Nothing is refused: of this subject the policy only observes.'];
  const state = new Map(regions.map((region) => [region.region, region.state]));
  const shares = Object.entries(budget.regions).map(([region, share]) => ({ region, ...share, mayUse: amount(share.offered) }));
  const short = shares.filter(({ demand, mayUse }) => demand > mayUse);
  if (short.length === 0) {
    return ['No region wants more than it may use. A burst that is greater than what its region has saved up is refused all the same.'];
  }
  const limit = amount(budget.limit);
  const wanted = shares.reduce((sum, { demand }) => sum + demand, 0);
  const away = shares.filter(({ region }) => state.get(region) !== 'live');
  const told = short.map(({ region, demand, mayUse }) => {
    const cut = state.get(region) === 'live' ? '' : ' It is cut off: it goes by its floor until it is reached again.';
    return `${region} wants ${show(demand)} and may use ${show(mayUse)}.${cut}`;
  });
  if (wanted > limit) {
    told.unshift(`All regions together want ${show(wanted)} of a limit of ${show(limit)}: however it is divided, ${show(wanted - limit)} is refused.`);
  } else if (away.length > 0) {
    const floors = away.map(({ region, floor }) => `${region} (${show(amount(floor))})`).join(', ');
    told.push(`The limit would do for all, but the floors of regions out of reach cannot be lent: ${floors}.`);
  } else {
    told.push('The limit would do for all: capacity is on its way, or lenders keep what the policy says they keep.');
  }
  return told;
}
