// @ts-check
// The page: follows the stream of states, and shows the view that the address names.

import { html, render, useEffect, useState } from './html.js';
import { record } from './history.js';
import { publish, useLive } from './live.js';
import { href, useRoute } from './route.js';
import { follow, keepToken } from './stream.js';
import { ask } from './api.js';
import { Facts } from './parts.js';
import { Audit } from './views/audit.js';
import { Budget } from './views/budget.js';
import { Budgets } from './views/budgets.js';
import { Cluster } from './views/cluster.js';
import { Overview } from './views/overview.js';
import { Policies } from './views/policies.js';
import { Region, Regions } from './views/regions.js';
import { WhatIf } from './views/what_if.js';

/** @type {[string, string][]} */
const VIEWS = [['', 'Overview'], ['budgets', 'Budgets'], ['regions', 'Regions'], ['policies', 'Policies'], ['cluster', 'Cluster'], ['what-if', 'What if'], ['audit', 'Audit']];

/** Asks for a token of a viewer; set while one is needed. @type {null | (() => void)} */
let signedIn = null;

function App() {
  const live = useLive();
  const route = useRoute();
  const [audited, setAudited] = useState(false);
  const [asked, setAsked] = useState(false);
  useEffect(() => {
    signInShown = setAsked;
    setAsked(signedIn !== null);
  }, []);
  const connected = live.state !== null && live.lost === '';
  useEffect(() => {
    // a coordinator of an older version has no audit
    if (connected) ask('/v1/audit?limit=1').then(() => setAudited(true), (problem) => setAudited(problem.status !== 404 && problem.status !== 0));
  }, [connected]);
  const view = route.path[0] ?? '';
  const views = VIEWS.filter(([path]) => path !== 'audit' || audited);
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the view</a>
    <header>
      <h1><a href="#/">Quorate</a></h1>
      <${Connection} live=${live} />
      ${live.state && html`<${ClusterFacts} state=${live.state} />`}
    </header>
    <nav class="views" aria-label="Views"><ul>
      ${views.map(([path, name]) => html`<li key=${path}><a href=${href(path ? [path] : [])} aria-current=${path === view ? 'page' : undefined}>${name}</a></li>`)}
    </ul></nav>
    ${asked && html`<${SignIn} />`}
    <main id="main" tabindex="-1" class=${live.state && live.lost ? 'old' : ''}>
      ${live.state ? html`<${Shown} route=${route} live=${live} />` : !asked && html`<p class="empty" role="status">Waiting for the first state of this coordinator…</p>`}
    </main>`;
}

/** @param {{route: import('./route.js').Route, live: import('./live.js').Live}} props */
function Shown({ route, live }) {
  const [view = '', first, second] = route.path;
  switch (view) {
    case '': return html`<${Overview} live=${live} route=${route} />`;
    case 'budgets': return first && second ? html`<${Budget} key=${`${first} ${second}`} live=${live} policy=${first} subject=${second} />` : html`<${Budgets} live=${live} route=${route} />`;
    case 'regions': return first ? html`<${Region} key=${first} live=${live} name=${first} />` : html`<${Regions} live=${live} />`;
    case 'policies': return html`<${Policies} live=${live} route=${route} />`;
    case 'cluster': return html`<${Cluster} live=${live} />`;
    case 'what-if': return html`<${WhatIf} live=${live} route=${route} />`;
    case 'audit': return html`<${Audit} route=${route} />`;
    default: return html`<p class="empty">There is no such view. <a href="#/">Overview</a></p>`;
  }
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

/** @param {{live: import('./live.js').Live}} props */
function Connection({ live: { state, lost } }) {
  const [tone, text] = lost === '' ? ['good', 'Live'] : state ? ['bad', `Disconnected: ${lost}. What is shown is old; trying again…`] : ['warn', `No state yet: ${lost}…`];
  return html`<p id="connection" class="status ${tone}" role="status">${text}</p>`;
}

/** @param {{state: any}} props */
function ClusterFacts({ state: { cluster, policy_set: set } }) {
  const waits = set.pending ? `, version ${set.pending.version} waits for ${set.pending.waits_for.join(', ') || 'its holdings'}` : '';
  return html`<${Facts} facts=${[
    ['leader', cluster.leader === null ? 'none' : `node ${cluster.leader}`],
    ['this is', `node ${cluster.node} of ${cluster.members.length}`],
    ['policy set', `version ${set.active}${waits}`],
  ]} />`;
}

/** @type {(shown: boolean) => void} */
let signInShown = () => {};

function SignIn() {
  const submit = (/** @type {any} */ event) => {
    event.preventDefault();
    const field = /** @type {HTMLInputElement} */ (event.target.elements.token);
    keepToken(field.value.trim());
    const done = signedIn;
    signedIn = null;
    signInShown(false);
    document.getElementById('main')?.focus();
    done?.();
  };
  return html`<form class="notice" id="sign-in" onSubmit=${submit}>
    <label for="token">This coordinator asks for a token with the role <em>viewer</em></label>
    <input id="token" name="token" type="password" autocomplete="off" spellcheck=${false} required autofocus />
    <button>Show</button>
  </form>`;
}

/** Asks for a token; resolves once one is given. */
function signIn() {
  signInShown(true);
  return new Promise((/** @type {(value: void) => void} */ resolve) => { signedIn = resolve; });
}

const page = document.getElementById('page');
if (page) render(html`<${App} />`, page);

follow({
  onState(state) {
    record(state.budgets.budgets);
    publish({ state, received: performance.now(), lost: '' });
  },
  onLost(lost) {
    publish({ lost });
  },
  signIn,
});
