// @ts-check
// The page: follows the stream of states and shows each.

import { showBound } from './bound.js';
import { showBudgets } from './budgets.js';
import { byId, setText, showFacts } from './dom.js';
import { showRegions, tick } from './regions.js';
import { follow, keepToken } from './stream.js';
import { span } from './units.js';

const TICK_MS = 250;

/** When the newest state arrived. */
let received = 0;
let lostBecause = 'connecting';

/** @param {any} state */
function onState(state) {
  received = performance.now();
  lostBecause = '';
  showCluster(state);
  showRegions(state.regions);
  showBound(state.policies);
  showBudgets(state.budgets);
  showConnection();
}

/** @param {any} state */
function showCluster({ cluster, policy_set: set }) {
  const waits = set.pending ? `, version ${set.pending.version} waits for ${set.pending.waits_for.join(', ') || 'its holdings'}` : '';
  showFacts(byId('cluster'), [
    ['leader', cluster.leader === null ? 'none' : `node ${cluster.leader}`],
    ['term', String(cluster.term)],
    ['this is', `node ${cluster.node} of ${cluster.members.length} (${cluster.state})`],
    ['policy set', `version ${set.active}${waits}`],
  ]);
}

function showConnection() {
  const status = byId('connection');
  document.body.classList.toggle('lost-contact', lostBecause !== '' && received > 0);
  status.className = `status ${lostBecause === '' ? '' : received > 0 ? 'lost' : 'waiting'}`;
  if (lostBecause === '') setText(status, 'Live');
  else setText(status, received > 0 ? `Disconnected: ${lostBecause}. What is shown is old; trying again…` : `No state yet: ${lostBecause}…`);
}

function showAge() {
  if (lostBecause !== '' && received > 0) byId('connection').title = `last state ${span(performance.now() - received)} ago`;
}

/** Asks for a token; resolves once one is given. */
function signIn() {
  const form = byId('sign-in');
  const input = /** @type {HTMLInputElement} */ (byId('token'));
  form.hidden = false;
  input.focus();
  return new Promise((/** @type {(value: void) => void} */ resolve) => {
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      keepToken(input.value.trim());
      input.value = '';
      form.hidden = true;
      resolve();
    }, { once: true });
  });
}

setInterval(() => {
  showAge();
  if (lostBecause === '') tick();
}, TICK_MS);

follow({
  onState,
  onLost(why) {
    lostBecause = why;
    showConnection();
  },
  signIn,
});
