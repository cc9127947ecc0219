// @ts-check
// Numbers with their units, for people.

const DECIMALS = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });
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

/** @param {number} ms */
export function span(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${number(ms / 60_000)} min`;
}

/** @param {number | null} ratio */
export function percent(ratio) {
  return ratio === null ? 'no demand' : `${Math.round(ratio * 100)} %`;
}
