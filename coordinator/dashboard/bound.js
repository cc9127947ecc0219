// @ts-check
// For each policy: by how much its limit can be exceeded, why, and by how much it was.

import { byId, element, keyed, setText, showFacts } from './dom.js';
import { percent, rate, span, tokens } from './units.js';

/** @param {any[]} policies */
export function showBound(policies) {
  keyed(byId('bound'), policies, (policy) => policy.policy, card);
  byId('no-policies').hidden = policies.length > 0;
}

function card() {
  const name = element('h3');
  const verdict = element('span', 'tag');
  const facts = element('dl', 'facts');
  const change = element('p', 'note');
  const terms = element('ul', 'terms');
  const details = element('details', '', element('summary', '', 'Terms'), terms);
  const node = element('li', '', element('div', 'head', name, verdict), facts, change, details);
  const update = (/** @type {any} */ policy) => {
    setText(name, policy.policy);
    const [text, tone] = judged(policy);
    setText(verdict, text);
    verdict.className = `tag ${tone}`;
    showFacts(facts, [
      ['at most', amount(policy.overshoot_bound, policy.overshoot_per_period, policy.period_ms)],
      ['measured', tokens(policy.measured_overshoot)],
      ['last hour', tokens(policy.measured_overshoot_last_hour)],
      ['utilisation', percent(policy.utilisation)],
    ]);
    setText(change, policy.change ? waiting(policy.change) : '');
    change.hidden = !policy.change;
    const lines = policy.terms.map((/** @type {any} */ term) => ({ ...term, period_ms: policy.period_ms }));
    keyed(terms, lines, (/** @type {any} */ term) => term.name, termLine);
  };
  return { node, update };
}

/**
 * So much at once, and so much in each period if that is not nothing.
 * @param {number | null} once
 * @param {number | null} perPeriod
 * @param {number} periodMs
 */
function amount(once, perPeriod, periodMs) {
  if (once === null || perPeriod === null) return 'unbounded';
  return perPeriod > 0 ? `${tokens(once)} and ${rate(perPeriod, periodMs)}` : tokens(once);
}

/** @param {any} change */
function waiting(change) {
  const until = change.until_ms === null ? 'nobody knows how long' : `at most ${span(change.until_ms)} more`;
  return `Bound of the old limit until version ${change.version} is in force, ${until}: ${change.why}.`;
}

/** @param {any} policy */
function judged(policy) {
  if (policy.alarms.length > 0) return ['internal check failed', 'bad'];
  if (policy.measured_beyond_bound > 0) return [`bound broken by ${tokens(policy.measured_beyond_bound)}`, 'bad'];
  if (policy.mode === 'observe') return ['observes, refuses nothing', 'warn'];
  if (policy.mode !== 'enforce') return [`${policy.mode}, observes the rest`, 'warn'];
  if (policy.overshoot_bound === null) return ['unbounded by choice', 'warn'];
  return ['within the bound', 'good'];
}

function termLine() {
  const node = element('li');
  const update = (/** @type {any} */ term) => {
    node.className = term.amount === 0 && term.amount_per_period === 0 ? 'zero' : '';
    setText(node, `${term.name}: ${amount(term.amount, term.amount_per_period, term.period_ms)}. ${term.why}`);
  };
  return { node, update };
}
