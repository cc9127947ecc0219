// @ts-check
// What if regions or coordinators are lost: what each region could admit then, as the coordinator works it out.

import { usePolled } from '../api.js';
import { html } from '../html.js';
import { Answer, Empty, Share, Table, Tag, View } from '../parts.js';
import { amend } from '../route.js';
import { amount, counted, measure, span } from '../units.js';

const AGAIN_MS = 5_000;

/** @param {{live: import('../live.js').Live, route: import('../route.js').Route}} props */
export function WhatIf({ live, route }) {
  const lost = (/** @type {string} */ name) => (route.query.get(name) ?? '').split(',').filter(Boolean);
  const [regions, coordinators, policy] = [lost('regions'), lost('coordinators'), route.query.get('policy') || live.state.policies[0]?.policy || ''];
  const query = new URLSearchParams();
  for (const [name, value] of [['regions', regions.join(',')], ['coordinators', coordinators.join(',')], ['policy', policy]]) if (value) query.set(name, value);
  const answer = usePolled(policy ? `/v1/what-if?${query}` : null, AGAIN_MS);
  const toggle = (/** @type {string} */ name, /** @type {string[]} */ present, /** @type {string} */ of) => amend(route, { [name]: (present.includes(of) ? present.filter((each) => each !== of) : [...present, of]).join(',') });
  const { members } = live.state.cluster;
  const choices = (/** @type {string} */ name, /** @type {string[]} */ present, /** @type {[string, string][]} */ all) => all.map(([value, text]) => html`<label key=${value}><input type="checkbox" checked=${present.includes(value)} onChange=${() => toggle(name, present, value)} /> ${text}</label>`);
  return html`<${View} title="What if" name="What if" note="Pick what is out of reach. The answer is worked out by the coordinator with the formula by which it divides limits; nothing is changed.">
    <form class="losses" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <fieldset><legend>Regions that reach no coordinator</legend>${choices('regions', regions, live.state.regions.map((/** @type {any} */ region) => [region.region, region.region]))}</fieldset>
      <fieldset><legend>Coordinators that are lost</legend>${choices('coordinators', coordinators, members.filter((/** @type {any} */ member) => member.voter).map((/** @type {any} */ member) => [String(member.id), `node ${member.id}`]))}</fieldset>
      <label>Policy <input name="policy" list="policies" value=${policy} spellcheck=${false} onChange=${(/** @type {any} */ event) => amend(route, { policy: event.target.value.trim() })} /></label>
      <datalist id="policies">${live.state.policies.slice(0, 500).map((/** @type {any} */ each) => html`<option value=${each.policy} />`)}</datalist>
    </form>
    <div aria-live="polite">
      ${policy ? html`<${Answer} of=${answer} what="the answer">${(/** @type {any} */ body) => html`<${Told} told=${body} />`}<//>` : html`<${Empty}>There are no policies yet.<//>`}
    </div>
  <//>`;
}

/** @param {{told: any}} props */
function Told({ told }) {
  const quorum = told.leader
    ? html`<${Tag} tone="good">There is a leader:<//> ${counted(told.voters_left, 'coordinator')} of ${told.voters} left, ${told.voters_needed} needed.`
    : html`<${Tag} tone="bad">There is no leader:<//> ${counted(told.voters_left, 'coordinator')} of ${told.voters} left, ${told.voters_needed} needed. Once the leases have ended each region goes by its floor.`;
  return html`<p>${quorum}</p>${told.policies.map((/** @type {any} */ policy) => html`<${OfPolicy} key=${policy.policy} policy=${policy} />`)}`;
}

/** @param {{policy: any}} props */
function OfPolicy({ policy }) {
  const { amount: of, show } = measure(policy);
  const limit = of(policy.limit);
  const rows = Object.entries(policy.regions).map(([name, region]) => ({
    key: name,
    cells: [
      name,
      html`<${Tag} tone=${region.leased ? 'good' : 'bad'}>${region.leased ? 'leased' : 'on its floor'}<//>`,
      show(of(region.at_most)),
      html`<${Share} part=${limit > 0 ? of(region.at_most) / limit : null} />`,
      show(of(region.floor)),
      region.without_store === null ? 'everything' : show(of(region.without_store)),
      region.leased ? '' : region.ends_after_ms === undefined ? 'never' : `after ${span(region.ends_after_ms)}`,
    ],
  }));
  return html`<section aria-labelledby=${`if-${policy.policy}`}>
    <h3 id=${`if-${policy.policy}`}>${policy.policy}, ${policy.limit_in_words}</h3>
    <dl class="figures">
      <div><dt>All together, at most</dt><dd class="value">${show(of(policy.together))}</dd><dd class="about">of one budget with a limit of ${show(limit)}</dd></div>
      <div><dt>Moves between regions</dt><dd class="value">${show(of(policy.leased))}</dd><dd class="about">among those with a lease</dd></div>
      <div><dt>Stays in floors</dt><dd class="value">${show(of(policy.cut_off))}</dd><dd class="about">of regions without a lease</dd></div>
      <div><dt>Lies idle</dt><dd class="value">${show(of(policy.idle))}</dd><dd class="about">belongs to no floor, and nobody grants it</dd></div>
      <div><dt>Bound</dt><dd class="value">${amount(policy.overshoot_bound, policy.overshoot_per_period, policy.period_ms)}</dd><dd class="about">beyond the limit at most: whoever is lost, it is the same</dd></div>
    </dl>
    <${Table} label=${`What each region could admit of ${policy.policy}`} columns=${['Region', 'State', 'Could admit, at most', 'Of the limit', 'Its floor', 'Without its store', 'Its floor ends']} text=${[1, 6]} rows=${rows} />
  </section>`;
}
