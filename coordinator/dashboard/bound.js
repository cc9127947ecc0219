// @ts-check
// For each policy: by how much its limit can be exceeded, why, and by how much it was.

import { byId, element, keyed, setText, showFacts } from './dom.js';
import { percent, tokens } from './units.js';

/** @param {any[]} policies */
export function showBound(policies) {
  keyed(byId('bound'), policies, (policy) => policy.policy, card);
  byId('no-policies').hidden = policies.length > 0;
}

function card() {
  const name = element('h3');
  const verdict = element('span', 'tag');
  const facts = element('dl', 'facts');
  const terms = element('ul', 'terms');
  const details = element('details', '', element('summary', '', 'Terms'), terms);
  const node = element('li', '', element('div', 'head', name, verdict), facts, details);
  const update = (/** @type {any} */ policy) => {
    setText(name, policy.policy);
    const [text, tone] = judged(policy);
    setText(verdict, text);
    verdict.className = `tag ${tone}`;
    showFacts(facts, [
      ['at most', policy.overshoot_bound === null ? 'unbounded' : tokens(policy.overshoot_bound)],
      ['measured', tokens(policy.measured_overshoot)],
      ['utilisation', percent(policy.utilisation)],
    ]);
    keyed(terms, policy.terms, (/** @type {any} */ term) => term.name, termLine);
  };
  return { node, update };
}

/** @param {any} policy */
function judged(policy) {
  if (policy.overshoot_bound === null) return ['unbounded by choice', 'warn'];
  if (policy.measured_overshoot > policy.overshoot_bound) return ['bound broken', 'bad'];
  return ['within the bound', 'good'];
}

function termLine() {
  const node = element('li');
  const update = (/** @type {any} */ term) => {
    node.className = term.amount === 0 ? 'zero' : '';
    setText(node, `${term.name}: ${term.amount === null ? 'unbounded' : tokens(term.amount)}. ${term.why}`);
  };
  return { node, update };
}
