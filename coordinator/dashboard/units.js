// @ts-check
// Numbers with their units, for people.

const DECIMALS = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });
const TIME = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const DATE = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
const PERIODS = new Map([[1, 'ms'], [1000, 's'], [60_000, 'min'], [3_600_000, 'h'], [86_400_000, 'd']]);

/** @param {number} value */
export function number(value) {
  return DECIMALS.format(value);
}

/**
 * Tokens in one period.
 * @param {number} value
 * @param {number} periodMs
 */
export function rate(value, periodMs) {
  const unit = PERIODS.get(periodMs) ?? span(periodMs);
  return `${number(value)}/${unit}`;
}

/** @param {number} value */
export function tokens(value) {
  return value === 1 ? '1 token' : `${number(value)} tokens`;
}

/**
 * How amounts of a budget are read and written: by rate where it refills, in units where it does not.
 * @param {{limit: {rate: number, burst: number}, period_ms: number}} of
 */
export function measure({ limit, period_ms: periodMs }) {
  const flows = limit.rate > 0;
  return {
    amount: (/** @type {{rate: number, burst: number}} */ capacity) => (flows ? capacity.rate : capacity.burst),
    show: (/** @type {number} */ value) => (flows ? rate(value, periodMs) : number(value)),
    unit: flows ? `tokens/${PERIODS.get(periodMs) ?? span(periodMs)}` : 'tokens',
  };
}

/**
 * So much at once, and so much in each period if that is not nothing.
 * @param {number | null} once
 * @param {number | null} perPeriod
 * @param {number} periodMs
 */
export function amount(once, perPeriod, periodMs) {
  if (once === null || perPeriod === null) return 'unbounded';
  return perPeriod > 0 ? `${tokens(once)} and ${rate(perPeriod, periodMs)}` : tokens(once);
}

/** @param {number} ms */
export function span(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${number(Math.round(ms / 6_000) / 10)} min`;
  if (ms < 172_800_000) return `${number(Math.round(ms / 360_000) / 10)} h`;
  return `${number(Math.round(ms / 8_640_000) / 10)} d`;
}

/** @param {number | null} ratio */
export function percent(ratio) {
  return ratio === null ? 'no demand' : `${Math.round(ratio * 100)} %`;
}

/** @param {number} count */
export function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const step = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, count)) / 10));
  return `${number(Math.round((10 * count) / 1024 ** step) / 10)} ${units[step]}`;
}

/** @param {number} unixMs */
export function clock(unixMs) {
  return TIME.format(unixMs);
}

/** @param {number} unixMs */
export function date(unixMs) {
  return DATE.format(unixMs);
}

/**
 * @param {number} count
 * @param {string} one
 * @param {string} [many]
 */
export function counted(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}
