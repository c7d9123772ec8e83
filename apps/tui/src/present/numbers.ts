/** Numbers for people: few digits, units where they change the meaning. */

/**
 * Microseconds with three or four digits, in "ms" from 1000 on and in "s" from a million on. `like`: a time that it
 * stands beside, whose unit it takes.
 */
export function formatMicroseconds(microseconds: number, like = microseconds): string {
  if (!Number.isFinite(microseconds)) return '-';
  const [name, least, digits] =
    like >= 1e6 ? (['s', 1e6, 3] as const) : like >= 1e3 ? (['ms', 1e3, 4] as const) : (['us', 1, 3] as const);
  const value = microseconds / least;
  return `${value >= 10 ** digits ? value.toFixed(0) : value.toPrecision(digits)} ${name}`;
}

/** An error as 4.9e-4; 0 stays 0, NaN says so. */
export function formatError(error: number): string {
  if (error === 0) return '0';
  return Number.isFinite(error) ? error.toExponential(1).replace('e+', 'e') : String(error);
}

/** At most four significant digits without trailing zeros. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return String(value);
  const magnitude = Math.abs(value);
  return magnitude < 1e-3 || magnitude >= 1e7
    ? value.toExponential(2).replace('e+', 'e')
    : String(Number(value.toPrecision(4)));
}

const LEAST_DECIMALS = 3;
const MOST_DECIMALS = 9;

/** Two numbers with as many decimals as it takes to see what they differ by: ["-4.0703", "-4.0723"]. */
export function formatPair(got: number, want: number): [string, string] {
  const difference = Math.abs(got - want);
  const wanted =
    difference > 0 && Number.isFinite(difference) ? Math.ceil(-Math.log10(difference)) + 1 : LEAST_DECIMALS;
  const decimals = Math.max(LEAST_DECIMALS, Math.min(MOST_DECIMALS, wanted));
  const format = (value: number): string =>
    Number.isFinite(value) && Math.abs(value) < 1e7 ? value.toFixed(decimals) : formatNumber(value);
  return [format(got), format(want)];
}

/** 1234567 as 1,234,567. */
export const formatCount = (count: number | bigint): string => count.toLocaleString('en-US');

/** Bytes as 24 KiB, 1.5 MiB; powers of 1024 as CUDA's limits are. */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(units.length, Math.floor(Math.log2(bytes) / 10));
  return `${Number((bytes / 1024 ** power).toPrecision(3))} ${units[power - 1] ?? 'B'}`;
}

const SINGULARS: Record<string, string> = {
  CTAs: 'CTA',
  registers: 'register',
  shapes: 'shape',
  cases: 'case',
  wavefronts: 'wavefront',
  instructions: 'instruction',
};

/** A value in a gate's unit: bytes by powers of 1024, shares as percent. */
export function formatInUnit(value: number, unit: string): string {
  if (unit === 'B' || unit === 'bytes') return value < 0 ? `-${formatBytes(-value)}` : formatBytes(value);
  if (unit === 'share') return `${formatNumber(Math.round(value * 1000) / 10)} %`;
  return `${formatNumber(value)}${unit === '' || unit === '1' ? '' : ` ${value === 1 ? (SINGULARS[unit] ?? unit) : unit}`}`;
}

/** Seconds as 0:41 or 1:02:03; below a minute in a list as 4.2 s. */
export function formatClock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const [hours, minutes, rest] = [
    Math.floor(whole / 3600),
    Math.floor(whole / 60) % 60,
    String(whole % 60).padStart(2, '0'),
  ];
  return hours > 0 ? `${hours}:${String(minutes).padStart(2, '0')}:${rest}` : `${minutes}:${rest}`;
}

export function formatSeconds(seconds: number): string {
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 60 ? `${seconds.toFixed(1)} s` : formatClock(seconds);
}

/** How long ago in the largest unit that fits. */
export function formatAge(seconds: number): string {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return seconds < 86_400 ? `${Math.floor(seconds / 3600)} h ago` : `${Math.floor(seconds / 86_400)} d ago`;
}

/** Time of day as in a log, UTC so that runs of different hosts line up. */
export const formatTimeOfDay = (milliseconds: number): string => new Date(milliseconds).toISOString().slice(11, 23);
