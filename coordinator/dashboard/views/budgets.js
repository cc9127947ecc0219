// @ts-check
// All budgets in motion, page by page, and which of them one request meets.

import { ask, usePolled } from '../api.js';
import { html, useState } from '../html.js';
import { whyRefused } from '../judge.js';
import { Answer, Empty, Failed, Table, View } from '../parts.js';
import { amend, href } from '../route.js';
import { counted } from '../units.js';
import { row } from './overview.js';

const PAGE = 25;
const AGAIN_MS = 3_000;
const SORTS = [['demand', 'most wanted'], ['refused', 'most refused'], ['admitted', 'most admitted'], ['lent', 'most lent'], ['policy', 'name']];

/** @param {{live: import('../live.js').Live, route: import('../route.js').Route}} props */
export function Budgets({ live, route }) {
  const of = (/** @type {string} */ name) => route.query.get(name) ?? '';
  const [policy, sort, subject, cursor] = [of('policy'), of('sort') || 'demand', of('subject'), of('cursor')];
  const query = new URLSearchParams({ sort, limit: String(PAGE) });
  for (const [name, value] of [['policy', policy], ['subject', subject], ['cursor', cursor]]) if (value) query.set(name, value);
  const answer = usePolled(`/v1/budgets?${query}`, AGAIN_MS);
  const narrow = (/** @type {any} */ event) => amend(route, { [event.target.name]: event.target.value.trim(), cursor: '' });
  return html`<${View} title="Budgets" name="Budgets" note="Those that somebody pushed beyond the floor of a region, or wants. Subjects are shown as hashes.">
    <form class="filters" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <label>Policy <input name="policy" list="policies" value=${policy} onChange=${narrow} spellcheck=${false} /></label>
      <datalist id="policies">${live.state.policies.slice(0, 500).map((/** @type {any} */ each) => html`<option value=${each.policy} />`)}</datalist>
      <label>Subject <input name="subject" value=${subject} onChange=${narrow} placeholder="32 hexadecimal digits" spellcheck=${false} /></label>
      <label>Order <select name="sort" onChange=${narrow}>${SORTS.map(([value, name]) => html`<option value=${value} selected=${value === sort}>${name}</option>`)}</select></label>
    </form>
    <${Answer} of=${answer} what="budgets">${(/** @type {any} */ body) => html`<${Page} body=${body} route=${route} first=${!cursor} />`}<//>
    <${Explain} live=${live} />
  <//>`;
}

/** @param {{body: any, route: import('../route.js').Route, first: boolean}} props */
function Page({ body: { budgets, cursor, total }, route, first }) {
  if (total === 0) return html`<${Empty}>No subject outgrows the floor of its region: every region decides alone.<//>`;
  return html`<p class="note">${counted(total, 'budget')}, ${budgets.length} shown</p>
    <${Table} label="Budgets" columns=${['Budget', 'Limit', 'Demand', 'Of the limit', 'Admitted', 'Refused']} rows=${budgets.map(row)} text=${[1]} />
    <nav class="pager" aria-label="Pages of budgets">
      <button type="button" disabled=${first} onClick=${() => amend(route, { cursor: '' })}>First page</button>
      <button type="button" disabled=${!cursor} onClick=${() => { location.hash = href(['budgets'], { ...Object.fromEntries(route.query), cursor }); }}>Next page</button>
    </nav>`;
}

/** @param {{live: import('../live.js').Live}} props */
function Explain({ live }) {
  const [told, setTold] = useState(/** @type {{budgets?: any[], problem?: any} | null} */ (null));
  const explain = async (/** @type {any} */ event) => {
    event.preventDefault();
    const lines = event.target.elements.attributes.value.split('\n').map((/** @type {string} */ line) => line.trim()).filter(Boolean);
    const attributes = Object.fromEntries(lines.map((/** @type {string} */ line) => {
      const at = line.indexOf('=');
      return at < 0 ? [line, ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    }));
    try {
      const { body } = await ask('/v1/explain', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ attributes }) });
      setTold({ budgets: body.budgets });
    } catch (problem) {
      setTold({ problem });
    }
  };
  return html`<section aria-labelledby="explain-title">
    <h3 id="explain-title">Why was this refused?</h3>
    <form class="stack" onSubmit=${explain}>
      <label for="attributes">What the request says of itself, one <code>name=value</code> a line. It is charged nothing.</label>
      <textarea id="attributes" name="attributes" rows="3" spellcheck=${false} placeholder="route=write"></textarea>
      <p><button>Explain</button></p>
    </form>
    <div role="status">
      ${told?.problem && html`<${Failed} problem=${told.problem} />`}
      ${told?.budgets?.length === 0 && html`<${Empty}>No policy in force matches such a request: it is not limited.<//>`}
      ${told?.budgets?.map((/** @type {any} */ budget) => html`<article class="card" key=${budget.policy}>
        <h4><a href=${href(['budgets', budget.policy, budget.subject])}>${budget.policy}</a>, ${budget.limit_in_words}</h4>
        <ul>${whyRefused(budget, live.state.regions).map((sentence) => html`<li><bdi>${sentence}</bdi></li>`)}</ul>
      </article>`)}
    </div>
  </section>`;
}
