// @ts-check
// What differs between two policy sets, field by field.

import { html } from '../html.js';
import { Empty, Table } from '../parts.js';

/** @param {{diff: any[]}} props */
export function Diff({ diff }) {
  if (diff.length === 0) return html`<${Empty}>Nothing differs.<//>`;
  const rows = diff.map((change, at) => ({
    key: String(at),
    cells: [
      change.policy ?? 'the set',
      html`<code>${change.field}</code>`,
      change.from === null ? html`<span class="soft">nothing</span>` : html`<del><bdi>${change.from}</bdi></del>`,
      change.to === null ? html`<span class="soft">nothing</span>` : html`<ins><bdi>${change.to}</bdi></ins>`,
    ],
  }));
  return html`<${Table} label="What differs" columns=${['Policy', 'Field', 'Before', 'After']} text=${[1, 2, 3]} rows=${rows} />`;
}
