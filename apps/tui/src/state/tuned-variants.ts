/** The race of a search over variants, from the rows in its events. */
import { Verdict, type TuneResult, type TunedVariant } from '@flashcore/shared/contract';
import type { JobView } from './job-view.ts';

/** The state of a search. */
export interface TuneRace {
  /** The leader first, then the variants still in the race, then the dropped ones. */
  readonly rows: readonly TunedVariant[];
  /**
   * Correct variants that no other variant beats in both latency and registers. If nothing is timed, shared memory is
   * used instead of latency.
   */
  readonly pareto: ReadonlySet<string>;
  /** The whole table, once the job has ended. */
  readonly result: TuneResult | undefined;
}

/** Adds a row; a later row about the same variant replaces the earlier one. */
export const withTunedVariant = (rows: readonly TunedVariant[], row: TunedVariant): TunedVariant[] =>
  rows.some(({ label }) => label === row.label)
    ? rows.map((each) => (each.label === row.label ? row : each))
    : [...rows, row];

/** The race of a job; undefined if the job is not a search or has no rows yet. */
export function raceOf({ tuned, result }: Pick<JobView, 'tuned' | 'result'>): TuneRace | undefined {
  const tune = result?.tune;
  const rows = tune && tune.variants.length > 0 ? tune.variants : tuned;
  if (rows.length === 0) return undefined;
  return { rows: rows.toSorted(byStanding), pareto: new Set(tune?.pareto ?? frontOf(rows)), result: tune };
}

/** Sorts decided places first, then variants still in the race by speed, then dropped ones. */
function byStanding(a: TunedVariant, b: TunedVariant): number {
  return (
    Number(a.dropped !== undefined) - Number(b.dropped !== undefined) ||
    (a.rank || Infinity) - (b.rank || Infinity) ||
    (a.p50Us ?? Infinity) - (b.p50Us ?? Infinity) ||
    0
  );
}

/** Correct variants that no other correct one beats in both figures. */
function frontOf(rows: readonly TunedVariant[]): string[] {
  const right = rows.filter(({ verified }) => verified === Verdict.PASS);
  const timed = right.some(({ p50Us }) => p50Us !== undefined);
  const figure = ({ p50Us, smemBytes }: TunedVariant): number => (timed ? (p50Us ?? Infinity) : smemBytes);
  const beats = (one: TunedVariant, other: TunedVariant): boolean =>
    figure(one) <= figure(other) &&
    one.registers <= other.registers &&
    (figure(one) < figure(other) || one.registers < other.registers);
  return right
    .filter((row) => Number.isFinite(figure(row)) && !right.some((other) => beats(other, row)))
    .map(({ label }) => label);
}
