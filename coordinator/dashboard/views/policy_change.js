// @ts-check
// Changing the policy set, as an operator: what would change is shown before it is done.

import { actAs, ask } from '../api.js';
import { html, useState } from '../html.js';
import { Failed } from '../parts.js';
import { counted } from '../units.js';
import { Diff } from './diff.js';

/** What a question or an order came to. @typedef {{problem?: any, shown?: any, done?: any, busy?: boolean}} Outcome */

export function Credential() {
  const [given, setGiven] = useState(false);
  const give = (/** @type {any} */ event) => {
    event.preventDefault();
    const field = /** @type {HTMLInputElement} */ (event.target.elements.operator);
    actAs(field.value);
    setGiven(field.value.trim() !== '');
    field.value = '';
  };
  return html`<form class="filters" onSubmit=${give}>
    <label>Token with the role operator, if this coordinator asks for one <input name="operator" type="password" autocomplete="off" spellcheck=${false} /></label>
    <button>Use it</button>
    <span role="status">${given ? 'A token is in use; it is kept in memory alone, and a reload forgets it.' : ''}</span>
  </form>`;
}

/** @param {{done: () => void}} props */
export function Change({ done }) {
  const [text, setText] = useState('');
  const [version, setVersion] = useState(/** @type {string | null} */ (null));
  const [why, setWhy] = useState('');
  const [outcome, setOutcome] = useState(/** @type {Outcome} */ ({}));
  const attempt = attempts(setOutcome);
  const load = () => attempt(async () => {
    const { text: set, response } = await ask('/v1/policies?format=yaml');
    setText(set);
    setVersion(response.headers.get('etag'));
    return {};
  });
  const dryRun = () => attempt(async () => ({ shown: (await put(text, { dry_run: 'true' })).body }));
  const apply = () => attempt(async () => {
    const { body, response } = await put(text, why ? { why } : {}, version);
    setVersion(response.headers.get('etag'));
    done();
    return { done: body };
  });
  const edit = (/** @type {any} */ event) => {
    setText(event.target.value);
    setOutcome({});
  };
  return html`<form class="stack" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); dryRun(); }}>
      <label for="set">The whole set, as YAML</label>
      <textarea id="set" rows="14" spellcheck=${false} value=${text} onInput=${edit} placeholder="Load the newest set, or paste one."></textarea>
      <p class="filters">
        <button type="button" onClick=${load}>Load the newest set</button>
        <button disabled=${!text || outcome.busy}>Dry run: what would change</button>
        <label>Why <input value=${why} maxlength="200" onInput=${(/** @type {any} */ event) => setWhy(event.target.value)} /></label>
        <button type="button" class="strong" disabled=${!outcome.shown || version === null || outcome.busy} onClick=${apply}>Apply</button>
      </p>
      ${version === null && html`<p class="note">To apply a set, load the newest one first: yours takes its place, and nobody else's.</p>`}
    </form>
    <${Came} outcome=${outcome} />`;
}

/** @param {{history: any[], done: () => void}} props */
export function Rollback({ history, done }) {
  const former = history.filter((kept) => kept.state !== 'pending' && kept !== history[0]).map((kept) => String(kept.version));
  const [chosen, setChosen] = useState('');
  const [outcome, setOutcome] = useState(/** @type {Outcome} */ ({}));
  const attempt = attempts(setOutcome);
  if (former.length === 0) return html`<p class="note">There is no older version to go back to.</p>`;
  const to = chosen || former[0];
  const order = (/** @type {Record<string, string>} */ query) => ask(`/v1/policies/rollback?${new URLSearchParams(query)}`, {
    method: 'POST', asOperator: true, headers: { 'content-type': 'application/json' }, body: JSON.stringify({ to: Number(to) }),
  });
  const dryRun = () => attempt(async () => ({ shown: (await order({ dry_run: 'true' })).body }));
  const goBack = () => attempt(async () => {
    const { body } = await order({});
    done();
    return { done: body };
  });
  const choose = (/** @type {any} */ event) => {
    setChosen(event.target.value);
    setOutcome({});
  };
  return html`<form class="filters" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); dryRun(); }}>
      <label>Go back to <select onChange=${choose}>${former.map((version) => html`<option value=${version} selected=${version === to}>version ${version}</option>`)}</select></label>
      <button disabled=${outcome.busy}>Show what would change</button>
      <button type="button" class="strong" disabled=${!outcome.shown || outcome.busy} onClick=${goBack}>Roll back</button>
    </form>
    <${Came} outcome=${outcome} />`;
}

/** @param {{outcome: Outcome}} props */
function Came({ outcome: { problem, shown, done } }) {
  const told = shown ?? done;
  const waits = done?.waits_for.length > 0 ? `, and in force once ${done.waits_for.join(', ')} confirmed it` : ', and in force';
  return html`<div class="outcome" role="status">
    ${problem && html`<${Failed} problem=${problem} />`}
    ${done && html`<p class="good">Version ${done.version} is accepted${waits}.</p>`}
    ${shown && html`<p>Nothing is done yet. Against version ${shown.version}: ${counted(shown.diff.length, 'change')}.</p>`}
    ${told?.warnings.length > 0 && html`<ul class="warn">${told.warnings.map((/** @type {any} */ warning) => html`<li>${warning.line ? `line ${warning.line}: ` : ''}${warning.detail}</li>`)}</ul>`}
    ${told && html`<${Diff} diff=${told.diff} />`}
  </div>`;
}

/**
 * @param {string} text
 * @param {Record<string, string>} query
 * @param {string | null} [replaces]
 */
function put(text, query, replaces = null) {
  /** @type {Record<string, string>} */
  const match = replaces === null ? {} : { 'if-match': replaces };
  return ask(`/v1/policies?${new URLSearchParams(query)}`, { method: 'PUT', asOperator: true, headers: { 'content-type': 'application/yaml', ...match }, body: text });
}

/**
 * One attempt at a time, and what came of it.
 * @param {(outcome: Outcome) => void} tell
 */
function attempts(tell) {
  return async (/** @type {() => Promise<Outcome>} */ attempt) => {
    tell({ busy: true });
    try {
      tell(await attempt());
    } catch (problem) {
      tell({ problem });
    }
  };
}
