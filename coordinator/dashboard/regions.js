// @ts-check
// Each region: its session, store and agent. The countdown goes on between two states.

import { byId, element, keyed, setText, showFacts } from './dom.js';
import { span } from './units.js';

const TONES = { live: 'good', expired: 'bad', unknown: 'warn' };

/** @type {Map<string, (now: number) => void>} */
const countdowns = new Map();

/** @param {any[]} regions */
export function showRegions(regions) {
  countdowns.clear();
  keyed(byId('regions'), regions, (region) => region.region, card);
  byId('no-regions').hidden = regions.length > 0;
  tick();
}

/** Draws all countdowns. */
export function tick() {
  const now = performance.now();
  for (const draw of countdowns.values()) draw(now);
}

function card() {
  const name = element('h3');
  const state = element('span', 'tag');
  const left = element('span');
  const bar = element('div', 'countdown', left);
  bar.setAttribute('aria-hidden', 'true');
  const facts = element('dl', 'facts');
  const node = element('li', '', element('div', 'head', name, state), bar, facts);
  let longest = 1;
  const update = (/** @type {any} */ region) => {
    const received = performance.now();
    setText(name, region.region);
    setText(state, `${region.state}, ${region.mode}`);
    state.className = `tag ${TONES[/** @type {keyof typeof TONES} */ (region.state)] ?? 'warn'}`;
    longest = Math.max(longest, region.horizon_ms);
    countdowns.set(region.region, (now) => {
      const remaining = Math.max(0, region.horizon_ms - (now - received));
      left.style.width = `${(100 * remaining) / longest}%`;
      showFacts(facts, [['lease', lease(region, remaining)], ...about(region)]);
    });
  };
  return { node, update };
}

/**
 * @param {any} region
 * @param {number} remaining
 */
function lease(region, remaining) {
  if (region.state === 'unknown') return 'not known here';
  return remaining > 0 ? `ends in ${span(remaining)}` : 'ended';
}

/** A store's clock that is further from all others opens other windows than they do. */
const FAR_MS = 10_000;

/**
 * @param {any} region
 * @returns {[string, string][]}
 */
function about(region) {
  const store = region.store.kind || 'not reported';
  const ahead = region.clock_ahead_ms ?? 0;
  const side = ahead > 0 ? 'ahead of' : 'behind';
  /** @type {[string, string][]} */
  const clock = Math.abs(ahead) < FAR_MS ? [] : [['clock of store', `${span(Math.abs(ahead))} ${side} every other`]];
  return [
    ['store', region.store.kind && !region.store.healthy ? `${store}, unreachable` : store],
    ['agent', region.agents.join(', ') || 'none yet'],
    ['session', String(region.session)],
    ['weight', String(region.weight)],
    ['policies', `version ${region.policies}`],
    ...clock,
  ];
}
