/** Formats numbers by the same rules in both programs. */

const FIGURE_DIGITS = 4;
const ERROR_DIGITS = 3;

/** Formats an error as 4.88e-4, 1.72, 11.4 or 8.49e3; 0 stays 0, and NaN becomes "NaN". */
export function formatError(error: number): string {
  if (error === 0 || !Number.isFinite(error)) return String(error);
  const isPlain = Math.abs(error) >= 1 && Math.abs(error) < 10 ** ERROR_DIGITS;
  return isPlain ? error.toPrecision(ERROR_DIGITS) : error.toExponential(ERROR_DIGITS - 1).replace('e+', 'e');
}

/**
 * Formats a number with at most `digits` significant digits and no trailing zeros. Whole numbers keep all digits:
 * 98,304.
 */
export function formatNumber(value: number, digits = FIGURE_DIGITS): string {
  if (!Number.isFinite(value)) return String(value).replace('Infinity', 'Inf');
  const magnitude = Math.abs(value);
  if (Number.isInteger(value) && magnitude < 1e9) return formatCount(value);
  if (magnitude < 1e-3 || magnitude >= 1e9) return value.toExponential(2).replace('e+', 'e');
  const rounded = Number(value.toPrecision(Math.max(digits, Math.ceil(Math.log10(magnitude)))));
  return Number.isInteger(rounded) ? formatCount(rounded) : String(rounded);
}

/**
 * Formats 1234567 as 1,234,567; whole numbers only. It does not use Intl, which would take ten times as long in every
 * frame.
 */
export const formatCount = (count: number | bigint): string => String(count).replaceAll(/\B(?=(?:\d{3})+$)/g, ',');

const LEAST_DECIMALS = 3;
const MOST_DECIMALS = 9;

/** Formats two numbers with enough decimals to show their difference: ["-4.0703", "-4.0723"]. */
export function formatPair(got: number, want: number): [string, string] {
  const difference = Math.abs(got - want);
  if (!Number.isFinite(difference)) return [formatNumber(got), formatNumber(want)];
  const wanted = difference > 0 ? Math.ceil(-Math.log10(difference)) + 1 : LEAST_DECIMALS;
  const decimals = Math.max(LEAST_DECIMALS, Math.min(MOST_DECIMALS, wanted));
  const format = (value: number): string =>
    Number.isFinite(value) && Math.abs(value) < 1e7 ? value.toFixed(decimals) : formatNumber(value);
  return [format(got), format(want)];
}

/** "1 byte", "1,024 bytes". */
export const bytesText = (bytes: number | bigint): string =>
  `${formatCount(bytes)} byte${Number(bytes) === 1 ? '' : 's'}`;

/** A count with its noun: "3 cases", "1 case". */
export const counted = (number: number, noun: string): string =>
  `${formatCount(number)} ${noun}${number === 1 ? '' : pluralEnding(noun)}`;

const pluralEnding = (noun: string): string => (/(s|ch)$/.test(noun) ? 'es' : 's');

/** Why the emulator's times are never judged, ranked or compared. Every message uses these words. */
export const EMULATOR_TIMES = 'emulator times are not GPU times';
