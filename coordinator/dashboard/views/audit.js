// @ts-check
// What happened, newest first: who changed what, when and why, and each grant.

import { usePolled } from '../api.js';
import { html } from '../html.js';
import { Answer, Empty, Hash, Table, View } from '../parts.js';
import { amend, href } from '../route.js';
import { date, number } from '../units.js';

const AGAIN_MS = 5_000;
const PAGE = 50;
const FILTERS = ['kind', 'policy', 'region', 'subject'];
const KINDS = ['policies-changed', 'policies-active', 'members-ordered', 'members-changed', 'lease-changed', 'fence-ordered', 'region-fenced', 'restored', 'founded', 'level-raised', 'alarms-cleared', 'check-failed', 'session-began', 'lease-ended', 'granted', 'units-granted', 'gap'];

/** @param {{route: import('../route.js').Route}} props */
export function Audit({ route }) {
  const of = (/** @type {string} */ name) => route.query.get(name) ?? '';
  const query = new URLSearchParams({ limit: String(PAGE) });
  for (const name of [...FILTERS, 'cursor']) if (of(name)) query.set(name, of(name));
  for (const name of ['since', 'until']) if (Date.parse(of(name))) query.set(`${name}_ms`, String(Date.parse(of(name))));
  const answer = usePolled(`/v1/audit?${query}`, of('cursor') ? 0 : AGAIN_MS);
  const narrow = (/** @type {any} */ event) => amend(route, { [event.target.name]: event.target.value.trim(), cursor: '' });
  const lines = new URLSearchParams([...query, ['format', 'jsonl']]);
  return html`<${View} title="Audit" name="Audit" note="What people ordered, and what every region was granted, by this coordinator's log.">
    <form class="filters" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <label>What <select name="kind" onChange=${narrow}><option value="">everything</option>${KINDS.map((kind) => html`<option value=${kind} selected=${kind === of('kind')}>${kind}</option>`)}</select></label>
      ${['policy', 'region', 'subject'].map((name) => html`<label key=${name}>${name[0].toUpperCase() + name.slice(1)} <input name=${name} value=${of(name)} onChange=${narrow} spellcheck=${false} /></label>`)}
      <label>From <input name="since" type="datetime-local" value=${of('since')} onChange=${narrow} /></label>
      <label>Until <input name="until" type="datetime-local" value=${of('until')} onChange=${narrow} /></label>
    </form>
    <${Answer} of=${answer} what="the account">${(/** @type {any} */ body) => html`<${Page} body=${body} route=${route} />`}<//>
    <p class="note">As JSON lines: <code>GET /v1/audit?${lines.toString()}</code></p>
  <//>`;
}

/** @param {{body: any, route: import('../route.js').Route}} props */
function Page({ body: { events, next }, route }) {
  if (events.length === 0) return html`<${Empty}>Nothing of that kind has happened.<//>`;
  return html`<${Table} label="What happened" columns=${['When', 'What', 'Who', 'Of', 'In words', 'Log']} text=${[1, 2, 3, 4]} wide=${4} rows=${events.map(rowOf)} />
    <nav class="pager" aria-label="Pages of the account">
      <button type="button" disabled=${!route.query.get('cursor')} onClick=${() => amend(route, { cursor: '' })}>Newest</button>
      <button type="button" disabled=${!next} onClick=${() => { location.hash = href(['audit'], { ...Object.fromEntries(route.query), cursor: next }); }}>Older</button>
    </nav>`;
}

/**
 * @param {any} event
 * @param {number} at
 */
function rowOf(event, at) {
  const budget = event.policy && event.subject;
  return {
    key: `${event.term}.${event.index}.${at}`,
    cells: [
      html`<time datetime=${new Date(event.at_ms).toISOString()}>${date(event.at_ms)}</time>`,
      event.kind,
      html`<bdi>${event.who ?? ''}</bdi>`,
      html`${event.region && html`<a href=${href(['regions', event.region])}>${event.region}</a> `}
        ${budget ? html`<a href=${href(['budgets', event.policy, event.subject])}>${event.policy} · <${Hash} of=${event.subject} /></a>` : event.policy ?? ''}`,
      html`<bdi>${inWords(event)}</bdi>`,
      `${event.term}.${event.index}`,
    ],
  };
}

/** @param {any} event */
function inWords({ detail, why, version, holding, units }) {
  const capacity = (/** @type {any} */ { rate, burst }) => (rate > 0 ? `${number(rate)} per period, burst ${number(burst)}` : number(burst));
  const held = holding && [['pool', holding.pool], ['lent', holding.lent], ...Object.entries(holding.borrowed ?? {}).map(([lender, part]) => [`borrowed of ${lender}`, part])]
    .filter(([, part]) => part.rate > 0 || part.burst > 0).map(([name, part]) => `${name} ${capacity(part)}`).join(', ');
  return [
    version === undefined ? '' : `version ${version}`,
    holding ? held || 'its floor alone' : '',
    units === undefined ? '' : `${number(units)} units`,
    detail ?? '',
    why ? `“${why}”` : '',
  ].filter(Boolean).join(': ');
}
