// @ts-check
// The policy set: its versions, what differs between two, what policies on trial would refuse, and a change of it.

import { ask, usePolled } from '../api.js';
import { html } from '../html.js';
import { Answer, Empty, Share, Table, View } from '../parts.js';
import { amend, href } from '../route.js';
import { counted, date, measure } from '../units.js';
import { Diff } from './diff.js';
import { Change, Credential, Rollback } from './policy_change.js';

const AGAIN_MS = 3_000;

/** @param {{live: import('../live.js').Live, route: import('../route.js').Route}} props */
export function Policies({ live, route }) {
  const history = usePolled('/v1/policies/history', AGAIN_MS);
  const [, what, first, second] = route.path;
  if (what === 'diff' && first && second) return html`<${Difference} from=${first} to=${second} history=${history} />`;
  if (what === 'version' && first) return html`<${Whole} version=${first} />`;
  const { pending } = live.state.policy_set;
  return html`<${View} title="Policies" name="Policies">
    ${pending && html`<p class="warn">Version ${pending.version} is accepted and not in force yet: it waits for ${pending.waits_for.join(', ') || 'what regions hold'}.</p>`}
    <section aria-labelledby="versions-title">
      <h3 id="versions-title">Versions of the set</h3>
      <${Answer} of=${history} what="the versions">${(/** @type {any} */ body) => html`<${Versions} history=${body.history} route=${route} />`}<//>
    </section>
    <section aria-labelledby="trials-title">
      <h3 id="trials-title">On trial: what would be refused</h3>
      <${Trials} policies=${live.state.policies} />
    </section>
    <section aria-labelledby="change-title">
      <h3 id="change-title">Change the set</h3>
      <${Credential} />
      <${Change} done=${history.again} />
      ${history.body && html`<${Rollback} history=${history.body.history} done=${history.again} />`}
    </section>
  <//>`;
}

/** @param {{history: any[], route: import('../route.js').Route}} props */
function Versions({ history, route }) {
  if (history.length === 0) return html`<${Empty}>There is no policy set yet: apply one below.<//>`;
  const rows = history.map((kept) => ({
    key: String(kept.version),
    cells: [
      html`<a href=${href(['policies', 'version', String(kept.version)])}>version ${kept.version}</a>`,
      html`<span class=${kept.state === 'active' ? 'good' : kept.state === 'pending' ? 'warn' : ''}>${kept.state}</span>`,
      html`<bdi>${kept.who}</bdi>`,
      date(Date.parse(kept.when)),
      html`<bdi>${kept.why ?? ''}</bdi>`,
      kept.diff === null ? 'not known' : html`<a href=${href(['policies', 'diff', String(kept.version - 1), String(kept.version)])}>${counted(kept.diff.length, 'change')}</a>`,
    ],
  }));
  const versions = history.map((kept) => String(kept.version));
  const [from, to] = [route.query.get('from') || versions[1] || versions[0], route.query.get('to') || versions[0]];
  const choose = (/** @type {any} */ event) => amend(route, { [event.target.name]: event.target.value });
  const choice = (/** @type {string} */ name, /** @type {string} */ chosen) => html`<select name=${name} onChange=${choose}>${versions.map((version) => html`<option value=${version} selected=${version === chosen}>version ${version}</option>`)}</select>`;
  return html`<${Table} label="Versions" columns=${['Version', 'State', 'Who', 'When', 'Why', 'Against the one before']} text=${[1, 2, 3, 4]} wide=${4} rows=${rows} />
    <p class="filters"><label>Compare ${choice('from', from)}</label> <label>with ${choice('to', to)}</label> <a class="button" href=${href(['policies', 'diff', from, to])}>Show what differs</a></p>`;
}

/** @param {{from: string, to: string, history: any}} props */
function Difference({ from, to, history }) {
  // against the empty set before the first version there is a difference in the history alone
  const first = from === '0' ? history.body?.history.find((/** @type {any} */ kept) => String(kept.version) === to) : null;
  const asked = usePolled(from === '0' ? null : `/v1/policies/diff?${new URLSearchParams({ from, to })}`, 0);
  const answer = from === '0' ? { body: first, problem: history.problem, again: history.again } : asked;
  return html`<${View} name=${`Versions ${from} and ${to}`} title=${html`<a href=${href(['policies'])}>Policies</a> / from version ${from} to ${to}`}>
    <${Answer} of=${answer} what="the difference">${(/** @type {any} */ body) => html`<${Diff} diff=${body.diff} />`}<//>
  <//>`;
}

/** @param {{version: string}} props */
function Whole({ version }) {
  const query = new URLSearchParams({ version, format: 'yaml' });
  const answer = useText(`/v1/policies/history?${query}`);
  return html`<${View} name=${`Version ${version}`} title=${html`<a href=${href(['policies'])}>Policies</a> / version ${version}`}>
    <${Answer} of=${answer} what="the set">${(/** @type {any} */ text) => html`<pre class="scroll" tabindex="0" role="region" aria-label=${`Policy set, version ${version}`}>${text}</pre>`}<//>
  <//>`;
}

/** The text of an answer, as {@link usePolled}. @param {string} path */
function useText(path) {
  return usePolled(path, 0, async (signal) => (await ask(path, { signal })).text);
}

/** @param {{policies: any[]}} props */
function Trials({ policies }) {
  const answer = usePolled('/v1/policies/trials', AGAIN_MS);
  return html`<${Answer} of=${answer} what="policies on trial">${(/** @type {any} */ { trials }) => {
    if (trials.length === 0) return html`<${Empty}>Every policy enforces its refusals. One with <code>mode: observe</code>, or <code>mode: {canary: 10%}</code>, shows here what it would refuse.<//>`;
    const rows = trials.map((/** @type {any} */ trial) => {
      const bound = policies.find((policy) => policy.policy === trial.policy);
      const { show } = measure({ limit: bound?.limit ?? { rate: 1, burst: 1 }, period_ms: trial.period_ms });
      return {
        key: trial.policy,
        cells: [
          html`<a href=${href(['budgets'], { policy: trial.policy })}>${trial.policy}</a>`,
          trial.mode,
          html`would refuse ${show(trial.would_refuse)} of ${show(trial.wanted)}`,
          html`<${Share} part=${trial.wanted > 0 ? trial.would_refuse / trial.wanted : null} tone="over" />`,
          `${trial.would_refuse_of} of ${trial.budgets}`,
          bound ? `${bound.measured_overshoot_last_hour} tokens` : '',
        ],
      };
    });
    return html`<${Table} label="Policies on trial" columns=${['Policy', 'Mode', 'At the demand of now', 'Part', 'Budgets with a refusal', 'Let pass beyond the limit, last hour']} text=${[1, 2]} rows=${rows} />
      <p class="note">Counted are budgets that are only observed and that somebody pushed beyond the floor of a region.</p>`;
  }}<//>`;
}
