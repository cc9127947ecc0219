// @ts-check
// The regions, and one of them: session, agents, store, budgets, and what happened to it.

import { usePolled } from '../api.js';
import { html } from '../html.js';
import { ofRegion } from '../judge.js';
import { Answer, Empty, Facts, Hash, Horizon, Name, Table, Tag, View } from '../parts.js';
import { href } from '../route.js';
import { measure, number, span } from '../units.js';
import { Changes } from './overview.js';

const AGAIN_MS = 2_000;
const BUDGETS = 25;
/** A store's clock that is further from all others opens other windows than they do. */
const FAR_MS = 10_000;

/** @param {any} region */
function storeOf(region) {
  if (!region.store.kind) return 'not reported';
  return html`<${Name} of=${region.store.kind} />${region.store.healthy ? '' : html`, <span class="bad">unreachable</span>`}`;
}

/** @param {{live: import('../live.js').Live}} props */
export function Regions({ live }) {
  const rows = live.state.regions.map((/** @type {any} */ region) => {
    const [words, tone] = ofRegion(region);
    return {
      key: region.region,
      cells: [
        html`<a href=${href(['regions', region.region])}>${region.region}</a>`,
        html`<${Tag} tone=${tone}>${words}<//>`,
        html`<${Horizon} region=${region} received=${live.received} stale=${live.lost !== ''} />`,
        storeOf(region),
        String(region.agents.length),
        String(region.weight),
        String(region.session),
        `version ${region.policies}`,
      ],
    };
  });
  return html`<${View} title="Regions" name="Regions">
    ${rows.length === 0
      ? html`<${Empty}>The policy set names no region yet.<//>`
      : html`<${Table} label="Regions" columns=${['Region', 'State', 'Lease', 'Store', 'Agents', 'Weight', 'Session', 'Policies']} text=${[1, 2, 3]} rows=${rows} />`}
  <//>`;
}

/** @param {{live: import('../live.js').Live, name: string}} props */
export function Region({ live, name }) {
  const region = live.state.regions.find((/** @type {any} */ each) => each.region === name);
  const title = html`<a href=${href(['regions'])}>Regions</a> / <${Name} of=${name} />`;
  if (!region) return html`<${View} title=${title} name=${`Region ${name}`}><${Empty}>Neither the policy set nor the coordinators know a region of this name.<//><//>`;
  const [words, tone] = ofRegion(region);
  return html`<${View} title=${title} name=${`Region ${name}`}>
    <p><${Tag} tone=${tone}>${words}<//></p>
    <${Horizon} region=${region} received=${live.received} stale=${live.lost !== ''} of="lease" bar />
    <${Facts} facts=${factsOf(region)} />
    <${Agents} region=${region} />
    <${Budgets} region=${region} />
    <${History} region=${name} />
  <//>`;
}

/**
 * @param {any} region
 * @returns {[string, any][]}
 */
function factsOf(region) {
  const ahead = region.clock_ahead_ms ?? 0;
  const far = Math.abs(ahead) >= FAR_MS;
  return [
    ['session', String(region.session)],
    ['last heartbeat', region.heartbeat_age_ms === null ? 'none yet' : `${span(region.heartbeat_age_ms)} ago`],
    ['store', storeOf(region)],
    ['clock of the store', region.clock_ahead_ms === null ? 'nothing to compare it with' : far ? html`<span class="bad">${span(Math.abs(ahead))} ${ahead > 0 ? 'ahead of' : 'behind'} every other</span>` : 'as the others'],
    ['weight', String(region.weight)],
    ['confirmed', `version ${region.policies} of the policy set`],
  ];
}

/** @param {{region: any}} props */
function Agents({ region }) {
  return html`<section aria-labelledby="agents-title">
    <h3 id="agents-title">Agents</h3>
    ${region.agents.length === 0
      ? html`<${Empty}>No agent has been heard of yet.<//>`
      : html`<ul>${region.agents.map((/** @type {string} */ agent) => html`<li key=${agent}><${Name} of=${agent} />${agent === region.renewed_by ? ', renews the lease' : ''}</li>`)}</ul>`}
  </section>`;
}

/** @param {{region: any}} props */
function Budgets({ region }) {
  const answer = usePolled(`/v1/budgets?sort=demand&limit=${BUDGETS}`, AGAIN_MS);
  const mode = region.state === 'live' ? 'leased' : 'floor';
  const rowsOf = (/** @type {any[]} */ budgets) => budgets.filter((budget) => budget.regions[region.region]).map((budget) => {
    const { amount, show } = measure(budget);
    const share = budget.regions[region.region];
    const usable = amount(mode === 'leased' ? share.offered : share.floor);
    return {
      key: `${budget.policy} ${budget.subject}`,
      cells: [
        html`<a href=${href(['budgets', budget.policy, budget.subject])}>${budget.policy} · <${Hash} of=${budget.subject} /></a>`,
        mode,
        show(usable),
        html`<span class=${share.demand > usable ? 'bad' : ''}>${show(share.demand)}</span>`,
        show(amount(share.floor)),
        show(amount(share.lent)),
        show(amount(share.borrowed)),
        number(share.refused),
      ],
    };
  });
  return html`<section aria-labelledby="here-title">
    <h3 id="here-title">Budgets here, as the coordinators know them</h3>
    <${Answer} of=${answer} what="budgets">${(/** @type {any} */ body) => (body.total === 0
      ? html`<${Empty}>No subject outgrows the floor of its region.<//>`
      : html`${body.total > BUDGETS && html`<p class="note">${BUDGETS} of ${number(body.total)}, those most in demand</p>`}
        <${Table} label="Budgets of this region" columns=${['Budget', 'Mode', 'May use', 'Demand', 'Floor', 'Lent', 'Borrowed', 'Tokens refused']} text=${[1]} rows=${rowsOf(body.budgets)} />`)}<//>
  </section>`;
}

/** @param {{region: string}} props */
function History({ region }) {
  const answer = usePolled('/v1/changes', AGAIN_MS);
  return html`<section aria-labelledby="history-title">
    <h3 id="history-title">Leases and fallbacks of late</h3>
    <${Answer} of=${answer} what="changes">${(/** @type {any} */ body) => html`<${Changes} changes=${body.changes.filter((/** @type {any} */ change) => change.region === region)} of=${region} />`}<//>
  </section>`;
}
