// @ts-check
// A stacked chart of the shares of regions over time, with its text alternative.

import { KEPT_MS } from './history.js';
import { html } from './html.js';
import { Name, Table } from './parts.js';
import { clock, span } from './units.js';

/** @typedef {import('./history.js').Sample} Sample */

/** Regions that have a colour of their own; all others share one. */
const COLOURS = 7;
/** Between two samples that are further apart nothing is drawn: nobody knows. */
const UNKNOWN_MS = 5_000;
/** The axis is as long as what is known, of these. */
const SPANS = [30_000, 60_000, 120_000, KEPT_MS];
/** Rows of the table. */
const ROWS = 10;
const [WIDTH, HEIGHT] = [1000, 240];

/**
 * Regions in the order in which they are stacked: those that hold most have a layer of their own.
 * @param {Sample[]} samples
 */
function layersOf(samples) {
  /** @type {Map<string, number>} */
  const sums = new Map();
  for (const { shares } of samples) {
    for (const [region, share] of Object.entries(shares)) sums.set(region, (sums.get(region) ?? 0) + share);
  }
  const byName = (/** @type {string} */ a, /** @type {string} */ b) => (a < b ? -1 : 1);
  const ranked = [...sums.keys()].toSorted((a, b) => (sums.get(b) ?? 0) - (sums.get(a) ?? 0) || byName(a, b));
  const own = ranked.slice(0, ranked.length > COLOURS + 1 ? COLOURS : COLOURS + 1).toSorted(byName);
  const others = ranked.filter((region) => !own.includes(region));
  const layers = own.map((region) => ({ name: region, regions: [region] }));
  return others.length > 0 ? [...layers, { name: `${others.length} others`, regions: others }] : layers;
}

/**
 * @param {Sample} sample
 * @param {string[]} regions
 */
function height(sample, regions) {
  return regions.reduce((sum, region) => sum + (sample.shares[region] ?? 0), 0);
}

/**
 * The next number that an axis may end with.
 * @param {number} value
 */
function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8].find((step) => step * power >= value) ?? 10) * power;
}

/**
 * Runs of samples without a gap.
 * @param {Sample[]} samples
 */
function runsOf(samples) {
  /** @type {Sample[][]} */
  const runs = [];
  for (const sample of samples) {
    const last = runs.at(-1);
    const before = last?.at(-1);
    if (last && before && sample.at - before.at <= UNKNOWN_MS) last.push(sample);
    else runs.push([sample]);
  }
  return runs;
}

/**
 * @param {{samples: Sample[], what: string, unit: string, show: (value: number) => string}} props
 */
export function Stacked({ samples, what, unit, show }) {
  const last = samples.at(-1);
  if (!last) return null;
  const layers = layersOf(samples);
  const top = round(Math.max(...samples.map((sample) => Math.max(sample.limit, sample.demand, height(sample, Object.keys(sample.shares)))), 1e-9));
  const shown = SPANS.find((ms) => last.at - samples[0].at <= ms) ?? KEPT_MS;
  const x = (/** @type {number} */ at) => (WIDTH * (at - last.at + shown)) / shown;
  const y = (/** @type {number} */ value) => HEIGHT * (1 - value / top);
  const runs = runsOf(samples);
  const summary = `${what}, ${unit}. Now: ${layers.map(({ name, regions }) => `${name} ${show(height(last, regions))}`).join(', ')}; limit ${show(last.limit)}; demand ${show(last.demand)}.`;
  return html`<figure class="chart">
    <figcaption>${what}, in ${unit}</figcaption>
    <div class="plot">
      <div class="axis" aria-hidden="true"><span>${show(top)}</span><span>${show(top / 2)}</span><span>${show(0)}</span></div>
      <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label=${summary}>
        ${layers.map(({ name }, at) => html`<path key=${name} class="layer c${at}" d=${runs.map((run) => area(run, layers, at, x, y)).join('')} />`)}
        <path class="line limit" d=${runs.map((run) => line(run, x, (sample) => y(sample.limit))).join('')} />
        <path class="line demand" d=${runs.map((run) => line(run, x, (sample) => y(sample.demand))).join('')} />
      </svg>
      <div class="axis time" aria-hidden="true"><span>${span(shown)} ago</span><span>${span(shown / 2)} ago</span><span>now</span></div>
    </div>
    <ul class="legend">
      ${layers.map(({ name, regions }, at) => html`<li key=${name}><span class="swatch c${at}"></span><${Name} of=${name} /> ${show(height(last, regions))}</li>`)}
      <li><span class="swatch stroke limit"></span>limit ${show(last.limit)}</li>
      <li><span class="swatch stroke demand"></span>demand ${show(last.demand)}</li>
    </ul>
    <details>
      <summary>The same as a table</summary>
      <${Table} label=${`${what} as a table`} columns=${['Time', ...layers.map(({ name }) => name), 'Limit', 'Demand']} rows=${rowsOf(samples).map((sample) => ({
        key: String(sample.at),
        cells: [clock(sample.at), ...layers.map(({ regions }) => show(height(sample, regions))), show(sample.limit), show(sample.demand)],
      }))} />
    </details>
  </figure>`;
}

/**
 * A few samples, evenly, newest first.
 * @param {Sample[]} samples
 */
function rowsOf(samples) {
  const step = Math.max(1, Math.ceil(samples.length / ROWS));
  return samples.toReversed().filter((_, at) => at % step === 0);
}

/**
 * @param {Sample[]} run
 * @param {{regions: string[]}[]} layers
 * @param {number} at
 * @param {(at: number) => number} x
 * @param {(value: number) => number} y
 */
function area(run, layers, at, x, y) {
  const below = layers.slice(0, at).flatMap(({ regions }) => regions);
  const floor = run.map((sample) => height(sample, below));
  const ceiling = run.map((sample, n) => floor[n] + height(sample, layers[at].regions));
  const point = (/** @type {number} */ n, /** @type {number} */ value) => `${x(run[n].at).toFixed(1)},${y(value).toFixed(1)}`;
  const there = ceiling.map((value, n) => point(n, value));
  const back = floor.map((value, n) => point(n, value)).toReversed();
  return `M${[...there, ...back].join('L')}Z`;
}

/**
 * @param {Sample[]} run
 * @param {(at: number) => number} x
 * @param {(sample: Sample) => number} y
 */
function line(run, x, y) {
  return `M${run.map((sample) => `${x(sample.at).toFixed(1)},${y(sample).toFixed(1)}`).join('L')}`;
}
