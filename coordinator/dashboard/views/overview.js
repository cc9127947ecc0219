// @ts-check
// Bound and overshoot, regions on a strip, budgets most in demand, and what has changed.

import { refusedPerSecond } from '../history.js';
import { html } from '../html.js';
import { ofPolicy, ofRegion, worstFirst } from '../judge.js';
import { Empty, Hash, Horizon, Name, Pager, Share, Table, Tag, View } from '../parts.js';
import { amend, href } from '../route.js';
import { amount, clock, counted, measure, number, percent, tokens } from '../units.js';

/** Policies on a page. */
const PAGE = 20;

/** @param {{live: import('../live.js').Live, route: import('../route.js').Route}} props */
export function Overview({ live, route }) {
  const { regions, policies, budgets, changes } = live.state;
  return html`<${View} title="Overview" name="Overview">
    <${Figures} state=${live.state} />
    <section aria-labelledby="regions-title">
      <h3 id="regions-title">Regions</h3>
      <${Strip} regions=${regions} live=${live} />
    </section>
    <section aria-labelledby="bound-title">
      <h3 id="bound-title">Overshoot: promised and measured</h3>
      <${Promises} policies=${policies} route=${route} />
    </section>
    <section aria-labelledby="demand-title">
      <h3 id="demand-title">Budgets most in demand</h3>
      <${InDemand} budgets=${budgets} />
    </section>
    <section aria-labelledby="changes-title">
      <h3 id="changes-title">What changed lately</h3>
      <${Changes} changes=${changes} />
    </section>
  <//>`;
}

/** @param {{state: any}} props */
function Figures({ state: { regions, policies, budgets } }) {
  const unbounded = policies.filter((/** @type {any} */ policy) => policy.overshoot_bound === null).length;
  const most = (/** @type {string} */ field) => Math.max(0, ...policies.map((/** @type {any} */ policy) => policy[field] ?? 0));
  const used = policies.map((/** @type {any} */ policy) => policy.utilisation).filter((/** @type {any} */ ratio) => ratio !== null);
  const leased = regions.filter((/** @type {any} */ region) => region.state === 'live').length;
  const refused = budgets.budgets.map(refusedPerSecond).filter((/** @type {any} */ rate) => rate !== null);
  const sum = refused.reduce((/** @type {number} */ all, /** @type {number} */ rate) => all + rate, 0);
  const broken = most('measured_beyond_bound');
  /** @type {[string, string, string, string][]} */
  const figures = [
    ['Bound', unbounded > 0 ? 'unbounded' : tokens(most('overshoot_bound')), unbounded > 0 ? `for ${counted(unbounded, 'policy', 'policies')} of ${policies.length}` : 'beyond a limit at most, of any policy', unbounded > 0 ? 'warn' : ''],
    ['Measured overshoot', tokens(most('measured_overshoot_last_hour')), broken > 0 ? `bound broken by ${tokens(broken)}` : 'worst of any policy in the last hour', broken > 0 ? 'bad' : ''],
    ['Utilisation', used.length > 0 ? percent(Math.min(...used)) : 'no demand', 'of what the limits could serve, least of any policy', ''],
    ['Regions with a lease', `${leased} of ${regions.length}`, leased < regions.length ? 'the others go by their floors' : 'all in reach', leased < regions.length ? 'bad' : ''],
    ['Refused', refused.length > 0 ? `${number(sum < 100 ? sum : Math.round(sum))} tokens/s` : '0 tokens/s', 'of the budgets most in demand, last 10 s', ''],
  ];
  return html`<dl class="figures">${figures.map(([name, value, about, tone]) => html`<div key=${name}><dt>${name}</dt><dd class="value ${tone}">${value}</dd><dd class="about">${about}</dd></div>`)}</dl>`;
}

/** @param {{regions: any[], live: import('../live.js').Live}} props */
export function Strip({ regions, live }) {
  if (regions.length === 0) return html`<${Empty}>The policy set names no region yet.<//>`;
  return html`<ul class="strip">${regions.map((region) => {
    const [words, tone] = ofRegion(region);
    return html`<li key=${region.region} class=${tone}>
      <a href=${href(['regions', region.region])}>${region.region}</a>
      <${Tag} tone=${tone}>${words}<//>
      <${Horizon} region=${region} received=${live.received} stale=${live.lost !== ''} of="lease" bar />
    </li>`;
  })}</ul>`;
}

/** @param {{policies: any[], route: import('../route.js').Route}} props */
function Promises({ policies, route }) {
  if (policies.length === 0) return html`<${Empty}>There are no policies yet. Send a set with <code>quorate policy apply FILE</code>, or <a href="#/policies">here</a>.<//>`;
  const pages = Math.ceil(policies.length / PAGE);
  const page = Math.min(pages - 1, Number(route.query.get('page')) || 0);
  const rows = worstFirst(policies).slice(page * PAGE, (page + 1) * PAGE).map((policy) => {
    const [words, tone] = ofPolicy(policy);
    return {
      key: policy.policy,
      cells: [
        html`<a href=${href(['budgets'], { policy: policy.policy })}>${policy.policy}</a>`,
        policy.limit_in_words,
        html`<${Tag} tone=${tone}>${words}<//>`,
        amount(policy.overshoot_bound, policy.overshoot_per_period, policy.period_ms),
        tokens(policy.measured_overshoot),
        tokens(policy.measured_overshoot_last_hour),
        html`<${Share} part=${policy.utilisation} />`,
      ],
    };
  });
  return html`<${Table} label="Overshoot of each policy" columns=${['Policy', 'Limit', 'State', 'Bound', 'Measured', 'Last hour', 'Utilisation']} rows=${rows} text=${[1, 2]} />
    <${Pager} page=${page} pages=${pages} of="policies" turn=${(/** @type {number} */ to) => amend(route, { page: to || '' })} />`;
}

/** @param {{budgets: {budgets: any[], total: number}}} props */
function InDemand({ budgets: { budgets, total } }) {
  if (total === 0) return html`<${Empty}>No subject outgrows the floor of its region: every region decides alone.<//>`;
  // in an order that does not follow the demand, so that nothing moves while it is read
  const ordered = budgets.toSorted((a, b) => (`${a.policy} ${a.subject}` < `${b.policy} ${b.subject}` ? -1 : 1));
  const note = total > budgets.length ? html`<p class="note">${budgets.length} of ${html`<a href="#/budgets">${counted(total, 'budget')}</a>`}</p>` : null;
  return html`${note}<${Table} label="Budgets most in demand" columns=${['Budget', 'Limit', 'Demand', 'Of the limit', 'Admitted', 'Refused']} rows=${ordered.map(row)} text=${[1]} />`;
}

/** @param {any} budget */
export function row(budget) {
  const { amount: of, show } = measure(budget);
  const shares = Object.values(budget.regions);
  const sum = (/** @type {string} */ field) => shares.reduce((all, share) => all + share[field], 0);
  const [demand, limit] = [sum('demand'), of(budget.limit)];
  return {
    key: `${budget.policy} ${budget.subject}`,
    cells: [
      html`<a href=${href(['budgets', budget.policy, budget.subject])}>${budget.policy} · <${Hash} of=${budget.subject} /></a>`,
      `${budget.limit_in_words}${budget.enforced ? '' : ', only observed'}`,
      show(demand),
      html`<${Share} part=${limit > 0 ? demand / limit : null} tone=${demand > limit ? 'over' : ''} />`,
      tokens(sum('admitted')),
      tokens(sum('refused')),
    ],
  };
}

/** @param {{changes: any[], of?: string}} props */
export function Changes({ changes, of = '' }) {
  if (changes.length === 0) return html`<${Empty}>Nothing has changed since the present leader leads.<//>`;
  return html`<ol class="changes">${changes.map((change, at) => html`<li key=${`${change.at_ms} ${change.kind} ${change.region} ${at}`}>
    <time datetime=${new Date(change.at_ms).toISOString()}>${clock(change.at_ms)}</time>
    <span class=${change.bad ? 'bad' : ''}>${change.region && change.region !== of && html`<${Name} of=${change.region} />: `}<bdi>${change.what}</bdi></span>
  </li>`)}</ol>`;
}
