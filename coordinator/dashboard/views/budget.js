// @ts-check
// One budget: its shares now and over time, the bound's terms, and why something is refused.

import { usePolled } from '../api.js';
import { record, samplesOf } from '../history.js';
import { html, useEffect } from '../html.js';
import { ofPolicy, whyRefused } from '../judge.js';
import { Answer, Empty, Facts, Hash, Horizon, Name, Share, Table, Tag, View } from '../parts.js';
import { href } from '../route.js';
import { Stacked } from '../stacked.js';
import { amount, date, measure, number, span, tokens } from '../units.js';

const AGAIN_MS = 1_000;
const SUBJECTS_MS = 5_000;
/** Subjects of the same policy. */
const SUBJECTS = 8;
/** In the order in which they are drawn. */
const PARTS = [['own', 'own floor'], ['borrowed', 'borrowed'], ['pool', 'pool'], ['lent', 'lent to others']];

/** @param {{live: import('../live.js').Live, policy: string, subject: string}} props */
export function Budget({ live, policy, subject }) {
  const query = new URLSearchParams({ policy, subject, limit: '1' });
  const answer = usePolled(`/v1/budgets?${query}`, AGAIN_MS);
  const budget = answer.body?.budgets[0];
  useEffect(() => { if (budget) record([budget]); }, [budget]);
  return html`<${View} name=${`Budget ${policy} ${subject.slice(0, 8)}`} title=${html`<a href=${href(['budgets'])}>Budgets</a> / ${policy} · <${Hash} of=${subject} />`}>
    <${Answer} of=${answer} what="the budget">${() => (budget ? html`<${Told} budget=${budget} live=${live} />` : html`<${Empty}>Nobody wants more of this than the floor of a region: there is nothing to show. Each region decides alone.<//>`)}<//>
    <${Promise} live=${live} policy=${policy} />
    <${Siblings} policy=${policy} subject=${subject} />
  <//>`;
}

/** @param {{budget: any, live: import('../live.js').Live}} props */
function Told({ budget, live }) {
  const { show, unit } = measure(budget);
  const stale = live.lost !== '';
  return html`<${Facts} facts=${[
      ['limit', budget.limit_in_words],
      ['mode', budget.enforced ? budget.mode : `${budget.mode}, this subject is only observed`],
      ['floors', budget.floor_ttl_ms === undefined ? 'as long as a region is cut off' : `end ${span(budget.floor_ttl_ms)} after a region is cut off`],
      ['subject', html`<${Name} of=${budget.subject} />`],
    ]} />
    <section aria-labelledby="why-title">
      <h3 id="why-title">Why is something refused?</h3>
      <ul>${whyRefused(budget, live.state.regions).map((sentence) => html`<li><bdi>${sentence}</bdi></li>`)}</ul>
    </section>
    <section aria-labelledby="time-title">
      <h3 id="time-title">Shares over time</h3>
      <${Stacked} samples=${samplesOf(budget)} what="What each region may use" unit=${unit} show=${show} />
    </section>
    <section aria-labelledby="shares-title">
      <h3 id="shares-title">Shares now</h3>
      <ul class="legend" aria-hidden="true">${PARTS.map(([part, name]) => html`<li><span class="swatch ${part}"></span>${name}</li>`)}<li><span class="swatch tick"></span>demand</li></ul>
      <${Table} label="Shares of each region" columns=${['Region', 'Shares', 'May use', 'Demand', 'Floor', 'Lent', 'Borrowed', 'Pool', 'Set aside', 'Held', 'Admitted', 'Refused', 'Horizon']} wide=${1} text=${[12]} rows=${rowsOf(budget, live, stale)} />
    </section>
    ${budget.windows?.length > 0 && html`<${Windows} budget=${budget} />`}`;
}

/**
 * @param {any} budget
 * @param {import('../live.js').Live} live
 * @param {boolean} stale
 */
function rowsOf(budget, live, stale) {
  const { amount: of, show } = measure(budget);
  const shares = Object.entries(budget.regions).map(([region, share]) => {
    const [floor, lent, borrowed, mayUse, held, aside] = [share.floor, share.lent, share.borrowed, share.offered, share.held, share.set_aside].map(of);
    const own = Math.max(0, floor - lent);
    return { region, share, floor, lent, borrowed, mayUse, held, aside, own, pool: Math.max(0, mayUse - own - borrowed) };
  });
  const scale = Math.max(of(budget.limit), ...shares.map(({ share }) => share.demand), 1e-9);
  const width = (/** @type {number} */ value) => `${Math.min(100, (100 * value) / scale)}%`;
  return shares.map((each) => {
    const { region, share, floor, lent, borrowed, mayUse, held, aside, pool } = each;
    const state = live.state.regions.find((/** @type {any} */ one) => one.region === region);
    const drawn = /** @type {any} */ (each);
    return {
      key: region,
      cells: [
        html`<a href=${href(['regions', region])}>${region}</a>`,
        html`<div class="bar" aria-hidden="true">${PARTS.map(([part]) => html`<span class="part ${part}" style=${{ width: width(drawn[part]) }}></span>`)}<span class="demand" style=${{ left: width(share.demand) }}></span></div>`,
        show(mayUse),
        html`<span class=${share.demand > mayUse ? 'bad' : ''}>${show(share.demand)}</span>`,
        ...[floor, lent, borrowed, pool, aside, held].map(show),
        number(share.admitted),
        number(share.refused),
        state ? html`<${Horizon} region=${state} received=${live.received} stale=${stale} />` : 'not in the set',
      ],
    };
  });
}

/** @param {{budget: any}} props */
function Windows({ budget }) {
  const regions = Object.keys(budget.regions);
  const rows = budget.windows.map((/** @type {any} */ window) => ({
    key: String(window.begins_at_ms),
    cells: [date(window.begins_at_ms), ...regions.map((region) => {
      const units = window.regions[region];
      return `${number(units.spent)} of ${number(units.granted)}`;
    })],
  }));
  return html`<section aria-labelledby="windows-title">
    <h3 id="windows-title">Open windows: units spent of those granted</h3>
    <${Table} label="Open windows" columns=${['Begins', ...regions]} rows=${rows} />
  </section>`;
}

/** @param {{live: import('../live.js').Live, policy: string}} props */
function Promise({ live, policy }) {
  const bound = live.state.policies.find((/** @type {any} */ each) => each.policy === policy);
  if (!bound) return html`<${Empty}>No policy of this name is in force.<//>`;
  const [words, tone] = ofPolicy(bound);
  const total = amount(bound.overshoot_bound, bound.overshoot_per_period, bound.period_ms);
  const rows = [
    ...bound.terms.map((/** @type {any} */ term) => ({
      key: term.name,
      tone: term.amount === 0 && term.amount_per_period === 0 ? 'zero' : '',
      cells: [term.name, amount(term.amount, term.amount_per_period, bound.period_ms), term.why],
    })),
    { key: 'sum', tone: 'sum', cells: ['sum: the bound', total, 'what each term allows may happen at the same time as what the others allow'] },
  ];
  return html`<section aria-labelledby="terms-title">
    <h3 id="terms-title">The bound of ${policy}</h3>
    <${Facts} facts=${[
      ['state', html`<${Tag} tone=${tone}>${words}<//>`],
      ['at most beyond the limit', total],
      ['measured', tokens(bound.measured_overshoot)],
      ['last hour', tokens(bound.measured_overshoot_last_hour)],
      ['utilisation', html`<${Share} part=${bound.utilisation} />`],
    ]} />
    ${bound.change && html`<p class="warn">Bound of the old limit until version ${bound.change.version} is in force, ${bound.change.until_ms === null ? 'nobody knows how long' : `at most ${span(bound.change.until_ms)} more`}: ${bound.change.why}.</p>`}
    <${Table} label="Terms of the bound" columns=${['Term', 'Beyond the limit', 'Why']} text=${[1, 2]} wide=${2} rows=${rows} />
  </section>`;
}

/** @param {{policy: string, subject: string}} props */
function Siblings({ policy, subject }) {
  const query = new URLSearchParams({ policy, sort: 'demand', limit: String(SUBJECTS) });
  const { body } = usePolled(`/v1/budgets?${query}`, SUBJECTS_MS);
  const others = body?.budgets ?? [];
  if (others.length === 0) return null;
  const rows = others.map((/** @type {any} */ budget) => {
    const { show } = measure(budget);
    const sum = (/** @type {string} */ field) => Object.values(budget.regions).reduce((all, share) => all + share[field], 0);
    const name = html`<${Hash} of=${budget.subject} />`;
    return {
      key: budget.subject,
      cells: [budget.subject === subject ? html`${name} (this)` : html`<a href=${href(['budgets', policy, budget.subject])}>${name}</a>`, show(sum('demand')), number(sum('refused'))],
    };
  });
  return html`<section aria-labelledby="subjects-title">
    <h3 id="subjects-title">Subjects of ${policy} most in demand</h3>
    <${Table} label="Subjects most in demand" columns=${['Subject', 'Demand', 'Tokens refused']} rows=${rows} />
  </section>`;
}
