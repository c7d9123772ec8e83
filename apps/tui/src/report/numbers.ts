import { type Shape } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import type { Timestamp } from '@bufbuild/protobuf/wkt';
import { timestampDate } from '@bufbuild/protobuf/wkt';

/** An error or another small number in three digits: "4.88e-4", "0", "NaN". */
export function small(value: number): string {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  return value.toExponential(2);
}

/** A figure in at most `digits` significant digits without an exponent where it stays readable. */
export function figure(value: number, digits = 4): string {
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value);
  const magnitude = Math.abs(value);
  return magnitude >= 1e9 || magnitude < 1e-3
    ? value.toExponential(2)
    : String(Number(value.toPrecision(Math.max(digits, Math.ceil(Math.log10(magnitude))))));
}

export interface TimeUnit {
  readonly name: 'us' | 'ms' | 's';
  readonly microseconds: number;
}

/** The unit in which a time of `microseconds` has one to three digits before the point. */
export function timeUnit(microseconds: number): TimeUnit {
  if (microseconds >= 1e6) return { name: 's', microseconds: 1e6 };
  return microseconds >= 1e3 ? { name: 'ms', microseconds: 1e3 } : { name: 'us', microseconds: 1 };
}

/** Microseconds in a unit, four significant digits, trailing zeros kept so that columns line up. */
export function inUnit(microseconds: number, unit: TimeUnit): string {
  const value = microseconds / unit.microseconds;
  if (!Number.isFinite(value)) return String(value);
  return value >= 1000 ? value.toFixed(0) : value.toPrecision(4);
}

/** "81.42 ms". */
export function time(microseconds: number): string {
  const unit = timeUnit(microseconds);
  return `${inUnit(microseconds, unit)} ${unit.name}`;
}

/** Seconds of a phase for people: "12 ms", "1.42 s", "3 min 05 s". */
export function seconds(value: number): string {
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  return `${Math.floor(value / 60)} min ${String(Math.floor(value % 60)).padStart(2, '0')} s`;
}

/** "2x8x512x64c": batch, heads, sequence length, head dimension, and c for causal, as --shape takes it. */
export function shapeText(shape: Shape | undefined): string {
  return shape ? formatShape(shape) : '-';
}

/** "2026-11-21 10:46:03Z". */
export function instant(value: Timestamp | undefined): string {
  return value
    ? timestampDate(value)
        .toISOString()
        .replace('T', ' ')
        .replace(/\.\d+Z$/, 'Z')
    : '-';
}

/** "11-21 10:46", UTC, for lists. */
export const shortInstant = (value: Timestamp | undefined): string => instant(value).slice(5, 16) || '-';

/** "3 cases", "1 case". */
export const count = (number: number, noun: string): string =>
  `${number} ${noun}${number === 1 ? '' : noun.endsWith('s') ? 'es' : 's'}`;
