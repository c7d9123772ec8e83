/** The race of a search over variants, from the rows that its events tell. */
import { Verdict, type TuneResult, type TunedVariant } from '@flashcore/shared/contract';
import type { JobView } from './job-view.ts';

/** What a search has come to so far. */
export interface TuneRace {
  /** The leader first, then those still in it, then those that were dropped. */
  readonly rows: readonly TunedVariant[];
  /** Right variants that no other beats in both latency (shared memory, where nothing is timed) and registers. */
  readonly pareto: ReadonlySet<string>;
  /** The whole table, once the job has ended. */
  readonly result: TuneResult | undefined;
}

/** The rows after one was told: the last about a variant stands. */
export const withTunedVariant = (rows: readonly TunedVariant[], row: TunedVariant): TunedVariant[] =>
  rows.some(({ label }) => label === row.label)
    ? rows.map((each) => (each.label === row.label ? row : each))
    : [...rows, row];

/** The race of a job; undefined: it is no search, or nothing is known yet. */
export function raceOf({ tuned, result }: Pick<JobView, 'tuned' | 'result'>): TuneRace | undefined {
  const tune = result?.tune;
  const rows = tune && tune.variants.length > 0 ? tune.variants : tuned;
  if (rows.length === 0) return undefined;
  return { rows: rows.toSorted(byStanding), pareto: new Set(tune?.pareto ?? frontOf(rows)), result: tune };
}

/** Decided places first; then what is still in the race, the faster first; what was dropped last. */
function byStanding(a: TunedVariant, b: TunedVariant): number {
  return (
    Number(a.dropped !== undefined) - Number(b.dropped !== undefined) ||
    (a.rank || Infinity) - (b.rank || Infinity) ||
    (a.p50Us ?? Infinity) - (b.p50Us ?? Infinity) ||
    0
  );
}

/** Right variants that no other right one beats in both figures. */
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
