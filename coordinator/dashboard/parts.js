// @ts-check
// What views are made of.

import { html, useEffect, useRef } from './html.js';
import { useNow } from './live.js';
import { percent, span } from './units.js';

/**
 * A view: its heading takes the focus when the view is opened, so that a screen reader goes on from there.
 * @param {{title: any, name: string, note?: any, children?: any}} props
 */
export function View({ title, name, note, children }) {
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    document.title = `${name} · Quorate`;
    if (View.opened && View.opened !== name) heading.current?.focus({ preventScroll: true });
    View.opened = name;
  }, [name]);
  return html`<h2 ref=${heading} tabindex="-1">${title}</h2>${note && html`<p class="note">${note}</p>`}${children}`;
}
/** The view that was opened last: the first of all does not take the focus. */
View.opened = '';

/** A name that others chose: it keeps its own direction. @param {{of: any, title?: string}} props */
export function Name({ of, title }) {
  return html`<bdi class="name" title=${title}>${of}</bdi>`;
}

/** A hash, cut to what people compare. @param {{of: string}} props */
export function Hash({ of }) {
  return html`<${Name} of=${of.slice(0, 8)} title=${of} />`;
}

/** @param {{tone?: string, children?: any}} props */
export function Tag({ tone = '', children }) {
  return html`<span class="tag ${tone}">${children}</span>`;
}

/** @param {{facts: [string, any][]}} props */
export function Facts({ facts }) {
  return html`<dl class="facts">${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** @param {{children?: any}} props */
export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}

/** @param {{what: string}} props */
export function Loading({ what }) {
  return html`<p class="empty" role="status">Asking for ${what}…</p>`;
}

/** @param {{problem: any, again?: () => void}} props */
export function Failed({ problem, again }) {
  return html`<div class="notice failed" role="alert">
    <p><strong>${problem.title}</strong>${problem.message !== problem.title && `: ${problem.message}`}</p>
    ${problem.errors?.length > 0 && html`<ul>${problem.errors.map((/** @type {any} */ error) => html`<li>${error.line ? `line ${error.line}: ` : ''}<code>${error.pointer}</code> ${error.detail}</li>`)}</ul>`}
    ${again && html`<button type="button" onClick=${again}>Try again</button>`}
  </div>`;
}

/**
 * What an answer comes to: the view of it, that it is on its way, or that it failed.
 * @param {{of: {body: any, problem: any, again: () => void}, what: string, children: (body: any) => any}} props
 */
export function Answer({ of: { body, problem, again }, what, children }) {
  return html`${problem && html`<${Failed} problem=${problem} again=${again} />`}
    ${body ? children(body) : !problem && html`<${Loading} what=${what} />`}`;
}

/**
 * A table in a box that scrolls. The first cell of each row is its heading.
 * @param {{label: string, columns: any[], rows: {key: string, cells: any[], tone?: string}[], wide?: number, text?: number[]}} props
 *   `wide`: the column that takes the room; `text`: those that are no numbers.
 */
export function Table({ label, columns, rows, wide = -1, text = [] }) {
  const classes = (/** @type {number} */ at) => `${at === wide ? 'wide ' : ''}${at === 0 || at === wide || text.includes(at) ? 'text' : ''}`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>
    <table>
      <thead><tr>${columns.map((column, at) => html`<th scope="col" class=${classes(at)}>${column}</th>`)}</tr></thead>
      <tbody>${rows.map(({ key, cells, tone }) => html`<tr key=${key} class=${tone}>
        ${cells.map((cell, at) => (at === 0 ? html`<th scope="row" class="text">${cell}</th>` : html`<td class=${classes(at)}>${cell}</td>`))}
      </tr>`)}</tbody>
    </table>
  </div>`;
}

/**
 * A part of a whole, as a bar beside its number.
 * @param {{part: number | null, tone?: string}} props
 */
export function Share({ part, tone = '' }) {
  const width = `${Math.min(100, Math.max(0, 100 * (part ?? 0)))}%`;
  return html`<span class="share"><span class="track" aria-hidden="true"><span class=${tone} style=${{ width }}></span></span>${percent(part)}</span>`;
}

/**
 * Pages of a list that is here.
 * @param {{page: number, pages: number, turn: (page: number) => void, of: string}} props
 */
export function Pager({ page, pages, turn, of }) {
  if (pages <= 1) return null;
  return html`<nav class="pager" aria-label="Pages of ${of}">
    <button type="button" disabled=${page <= 0} onClick=${() => turn(page - 1)}>Previous</button>
    <span>page ${page + 1} of ${pages}</span>
    <button type="button" disabled=${page >= pages - 1} onClick=${() => turn(page + 1)}>Next</button>
  </nav>`;
}

/**
 * The lease of a region, counting down since it was told.
 * @param {{region: any, received: number, stale: boolean, bar?: boolean, of?: string}} props
 */
export function Horizon({ region, received, stale, bar = false, of = '' }) {
  const now = useNow();
  const left = Math.max(0, region.horizon_ms - (stale ? 0 : Math.max(0, now - received)));
  const text = region.state === 'unknown' ? 'not known here' : left > 0 ? `ends in ${span(left)}` : 'ended';
  const longest = useRef(1);
  longest.current = Math.max(longest.current, region.horizon_ms);
  const width = `${(100 * left) / longest.current}%`;
  return html`<span class="horizon">${bar && html`<span class="track" aria-hidden="true"><span style=${{ width }}></span></span>`}${of ? `${of} ${text}` : text}</span>`;
}
