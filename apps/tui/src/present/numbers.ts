/**
 * Number formats for people: measured times and figures have four significant digits, errors and shares three. Times
 * and bytes use the most readable unit.
 */
import { timestampDate, type Timestamp } from '@bufbuild/protobuf/wkt';
import { entryOf, formatNumber } from '@flashcore/shared/text';

export { counted, formatCount, formatError, formatNumber, formatPair } from '@flashcore/shared/text';

const TIME_DIGITS = 4;
const SHARE_DIGITS = 3;

const TIME_UNITS = [
  { name: 's', microseconds: 1e6 },
  { name: 'ms', microseconds: 1e3 },
  { name: 'us', microseconds: 1 },
] as const;

/**
 * Microseconds with four digits, as "ms" from 1000 on and as "s" from a million on. If `like` is given, the unit is
 * that of this neighboring time.
 */
export function formatMicroseconds(microseconds: number, like = microseconds): string {
  if (!Number.isFinite(microseconds)) return '-';
  const unit = TIME_UNITS.find((candidate) => Math.abs(like) >= candidate.microseconds) ?? TIME_UNITS[2];
  return `${fixedDigits(microseconds / unit.microseconds, TIME_DIGITS)} ${unit.name}`;
}

// Trailing zeros stay so that columns line up; digits before the point are never rounded away.
const fixedDigits = (value: number, digits: number): string =>
  Math.abs(value) >= 10 ** (digits - 1) ? value.toFixed(0) : value.toPrecision(digits);

/** Formats 33.33 as "33.3 %". */
export const formatPercent = (percent: number): string => `${formatNumber(percent, SHARE_DIGITS)} %`;

/** A change such as "+4.7 %" or "-3 %". */
export const formatChange = (share: number): string => `${share > 0 ? '+' : ''}${formatPercent(share * 100)}`;

/** A speedup such as "1.071 x". */
export const formatSpeedup = (speedup: number): string => `${formatNumber(speedup)} x`;

export interface Interval {
  readonly ratio: number;
  readonly low: number;
  readonly high: number;
}

/** The ratio of two medians with four decimals, as in the runner's reasons. */
export const formatRatio = (ratio: number): string => ratio.toFixed(4);

/** A ratio with its interval, such as "1.0712 [1.0688, 1.0735]". */
export const formatInterval = ({ ratio, low, high }: Interval): string =>
  `${formatRatio(ratio)} [${formatRatio(low)}, ${formatRatio(high)}]`;

/** A speedup with its interval: "1.671 x [1.668, 1.674]". */
export const formatSpeedupInterval = ({ ratio, low, high }: Interval): string =>
  `${formatSpeedup(ratio)} [${formatNumber(low)}, ${formatNumber(high)}]`;

/** Bytes as 24 KiB, 1.5 MiB; powers of 1024 as CUDA's limits are. */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(units.length, Math.floor(Math.log2(bytes) / 10));
  // Tenths of KiB are kept, because limits of shared memory are compared with figures such as 106.5 KiB.
  const digits = power === 1 && bytes >= 100 * 1024 ? 4 : 3;
  return `${Number((bytes / 1024 ** power).toPrecision(digits))} ${units[power - 1] ?? 'B'}`;
}

const SINGULARS: Record<string, string> = {
  CTAs: 'CTA',
  registers: 'register',
  shapes: 'shape',
  cases: 'case',
  parts: 'part',
  wavefronts: 'wavefront',
  instructions: 'instruction',
  gates: 'gate',
  elements: 'element',
};

/** A value in the unit of a gate or counter. Times, bytes and shares have their own rules. */
export function formatInUnit(value: number, unit: string): string {
  if (unit === 'B' || unit === 'bytes') return value < 0 ? `-${formatBytes(-value)}` : formatBytes(value);
  if (unit === 'share') return formatPercent(value * 100);
  if (unit === '%') return formatPercent(value);
  if (unit === 'us') return formatMicroseconds(value);
  return `${formatNumber(value)}${unit === '' || unit === '1' ? '' : ` ${value === 1 ? (entryOf(SINGULARS, unit) ?? unit) : unit}`}`;
}

/** A duration: "12 ms", "1.42 s", "34.2 s", "3 min 05 s", "2 h 07 min". Negative values become 0. */
export function formatSeconds(seconds: number): string {
  if (seconds < 0.9995) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  return seconds < 59.95 ? `${seconds.toPrecision(3)} s` : formatElapsed(seconds);
}

/**
 * A duration in whole seconds: "41 s", "3 min 05 s", "2 h 07 min". It is rounded as formatSeconds() does, so that two
 * places that show the same duration agree.
 */
export function formatElapsed(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const twoDigits = (value: number): string => String(value).padStart(2, '0');
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${twoDigits(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${twoDigits(Math.floor(whole / 60) % 60)} min`;
}

/** A time in the largest unit that fits, such as "12 min". */
export function formatSpan(seconds: number): string {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 86_400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`;
}

export const formatAge = (seconds: number): string => `${formatSpan(seconds)} ago`;

/** Time of day for a log, in UTC so that runs of different hosts line up. */
export const formatTimeOfDay = (milliseconds: number): string => new Date(milliseconds).toISOString().slice(11, 23);

/** An instant such as "2026-11-21 10:46:03Z". */
export function formatInstant(time: Timestamp | undefined): string {
  if (time === undefined) return '-';
  return timestampDate(time)
    .toISOString()
    .replace('T', ' ')
    .replace(/\.\d+Z$/, 'Z');
}

/** A short instant for lists, such as "11-21 10:46", UTC. */
export const formatShortInstant = (time: Timestamp | undefined): string => formatInstant(time).slice(5, 16) || '-';

/** When something happened, for lists, UTC: the time of day within the last twelve hours, else with the date. */
export function formatWhen(time: Timestamp | undefined, now: number): string {
  const short = formatShortInstant(time);
  const isRecent = time !== undefined && now - secondsOf(time) * 1000 < 12 * 3_600_000;
  return isRecent ? short.slice(6) : short;
}

/** US dollars: "0.0032 USD". */
export const formatCost = (dollars: number): string => `${dollars.toFixed(4)} USD`;

/** A time such as "2026-11-21 10:46:03Z"; empty if there is none. */
export const instantOf = (time: Timestamp | undefined): string => (time === undefined ? '' : formatInstant(time));

export const secondsOf = (time: Timestamp | undefined): number =>
  time === undefined ? 0 : Number(time.seconds) + time.nanos / 1e9;
