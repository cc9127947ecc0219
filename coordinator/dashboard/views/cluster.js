// @ts-check
// The coordinators: leader, terms, lag, disk, members.

import { usePolled } from '../api.js';
import { html } from '../html.js';
import { Answer, Facts, Name, Table, Tag, View } from '../parts.js';
import { bytes, counted, number } from '../units.js';

const AGAIN_MS = 2_000;

/** @param {{live: import('../live.js').Live}} props */
export function Cluster({ live }) {
  const answer = usePolled('/v1/cluster', AGAIN_MS);
  return html`<${View} title="Cluster" name="Cluster">
    <${Answer} of=${answer} what="the cluster">${(/** @type {any} */ body) => html`<${Told} cluster=${body} set=${live.state.policy_set} />`}<//>
  <//>`;
}

/** @param {{cluster: any, set: any}} props */
function Told({ cluster, set }) {
  const voters = cluster.members.filter((/** @type {any} */ member) => member.voter).length;
  const spare = Math.ceil(voters / 2) - 1;
  // only a leader knows how far the others are, so where nobody tells it did not answer
  const answers = cluster.leader === cluster.node || cluster.members.some((/** @type {any} */ member) => member.lag !== null);
  const rows = cluster.members.map((/** @type {any} */ member) => ({
    key: String(member.id),
    cells: [
      `node ${member.id}`,
      html`<${Name} of=${member.address} />`,
      member.id === cluster.leader ? html`<${Tag} tone="good">leader<//>` : member.voter ? 'voter' : 'learner',
      member.id === cluster.leader ? 'none' : member.lag === null ? 'only the leader knows' : counted(member.lag, 'entry', 'entries'),
      member.id === cluster.node ? 'this node' : '',
    ],
  }));
  return html`
    <p>${cluster.leader === null
      ? html`<${Tag} tone="bad">No leader: regions go by their floors once their leases have ended.<//>`
      : !answers
      ? html`<${Tag} tone="bad">The leader, node ${cluster.leader}, does not answer: without another, regions go by their floors once their leases have ended.<//>`
      : spare > 0
        ? `${counted(spare, 'coordinator')} more may fail before there is no leader, if all answer now.`
        : html`<${Tag} tone="warn">If one more voter fails there is no leader.<//>`}</p>
    <${Facts} facts=${[
      ['leader', cluster.leader === null ? 'none' : `node ${cluster.leader}`],
      ['term', number(cluster.term)],
      ['rules of the ledger', `level ${cluster.level}`],
      ['policy set', `version ${set.active}`],
    ]} />
    <section aria-labelledby="members-title">
      <h3 id="members-title">Members</h3>
      <${Table} label="Members" columns=${['Node', 'Address', 'Role', 'Behind the leader', '']} text=${[1, 2, 4]} rows=${rows} />
      <p class="note">Members are added and removed with <code>quorate cluster add</code> and <code>quorate cluster remove</code>.</p>
    </section>
    <section aria-labelledby="log-title">
      <h3 id="log-title">Log and disk of node ${cluster.node}</h3>
      <${Facts} facts=${[
        ['state', cluster.state],
        ['last entry', number(cluster.last_log)],
        ['applied', number(cluster.applied)],
        ['in the snapshot', cluster.snapshot === null ? 'none yet' : `up to ${number(cluster.snapshot)}`],
        ['taken on disk', cluster.disk_bytes === undefined ? 'not told' : bytes(cluster.disk_bytes)],
        ['free on disk', cluster.disk_free_bytes === undefined ? 'not told' : bytes(cluster.disk_free_bytes)],
      ]} />
    </section>`;
}
