import { create } from '@bufbuild/protobuf';
import {
  ComparisonVerdict,
  HeldOutVerdict,
  Outcome,
  TuneResultSchema,
  Verdict,
  outcomeOfJob,
  type ComparisonResult,
  type HeldOutResult,
  type JobResult,
  type TuneResult,
  type TunedVariant,
} from '@flashcore/shared/contract';
import { counted } from '@flashcore/shared/text';
import type { JobOutcome } from '../jobs/job-context.ts';
import type { TuneSpec } from '../spec/job-spec.ts';
import { paretoFront } from './race.ts';

const RANKED_BY_TIME = 'median latency in interleaved comparisons with the leader';
const RANKED_BY_RESOURCES =
  'registers, then shared memory, which need not be the order of speed: emulator times are not GPU times; ' +
  'fa-tui profile --arch sm_90 --set NAME=VALUE estimates a variant on an NVIDIA H200';

/** State of a search. */
export interface SearchFound {
  /** In the plan's order. */
  rows: readonly TunedVariant[];
  winner: TunedVariant | undefined;
  /** Whether every contender had its turn before the budget was used up. */
  complete: boolean;
  /** The comparison of the winner with the champion. */
  comparison: ComparisonResult | undefined;
  heldOut: HeldOutResult | undefined;
}

/** Result of a search for a GPU, or on the emulator, whose times judge nothing. */
export function tuneResultOf(
  { rows, winner, complete }: SearchFound,
  { combinations, drawn }: TuneSpec['plan'],
  simulated: boolean,
): TuneResult {
  const figures = rows.map((row) =>
    row.verified === Verdict.PASS ? [simulated ? row.smemBytes : row.p50Us, row.registers] : [undefined, undefined],
  );
  return create(TuneResultSchema, {
    variants: rows.toSorted((a, b) => (a.rank || Infinity) - (b.rank || Infinity)),
    pareto: paretoFront(figures).map((place) => rows[place]!.label),
    ...(winner && { winner: winner.label }),
    rankedBy: simulated ? RANKED_BY_RESOURCES : RANKED_BY_TIME,
    paretoOf: simulated ? 'shared memory and registers' : 'median latency and registers',
    simulated,
    combinations,
    drawn,
    complete: complete && winner !== undefined,
  });
}

/** Why a search has no winner, with the reason of the first variant that it dropped. */
function noneRight(rows: readonly TunedVariant[], complete: boolean): string {
  const none = rows.length === 1 ? 'the only variant is not right' : `none of ${rows.length} variants is right`;
  if (!complete) return `${none}: the budget was used up`;
  const first = rows.find(({ dropped = '' }) => dropped !== '');
  if (first === undefined) return none;
  return rows.length === 1
    ? `${none}: ${first.dropped}`
    : `${none}; ${first.label} was dropped first: ${first.dropped}`;
}

/** Names all variants that need as few registers as the winner, and says why the winner is before them. */
function fewestRegisters(winner: TunedVariant, rows: readonly TunedVariant[]): string {
  const { label, registers, smemBytes } = winner;
  const tied = rows.filter(
    (row) => row.label !== label && row.verified === Verdict.PASS && row.registers === registers && !row.dropped,
  );
  if (tied.length === 0) return `${label} has the fewest registers, ${registers}`;
  const all = [label, ...tied.map((row) => row.label)].join(', ');
  const isFirst = tied.every((row) => row.smemBytes > smemBytes);
  const why = isFirst ? `${label} takes the least shared memory` : 'shared memory does not decide either';
  return `${all} have the fewest registers, ${registers}; ${why}`;
}

/** The winner against the champion, such as "not compared with k A=1 (1x1x64x64: emulator times are not GPU times)". */
function championText({ champion, verdict, reason }: ComparisonResult): string {
  const label = champion?.label ?? 'the champion';
  return verdict === ComparisonVerdict.NOT_JUDGED
    ? `not compared with ${label} (${reason})`
    : `compared with ${label}: ${reason}`;
}

/** The end of a search that has a result. */
export function endOfTune(
  { rows, winner, complete, comparison, heldOut }: SearchFound,
  { variants }: JobResult,
): Pick<JobOutcome, 'outcome' | 'summary'> {
  if (!winner) return { outcome: Outcome.FAILED, summary: noneRight(rows, complete) };
  const { label, p50Us } = winner;
  const tried = counted(rows.length, 'variant');
  // Resources rank variants, but nobody knows which is the fastest.
  const found =
    p50Us === undefined
      ? `${tried} tried, none timed on a GPU: ${fewestRegisters(winner, rows)}`
      : `best of ${tried}: ${label}, ${p50Us.toPrecision(4)} us`;
  const champion = comparison ? `; ${championText(comparison)}` : '';
  const unseen = heldOut ? `; ${heldOut.detail}` : '';
  // A champion that stays ahead is a valid result of the search, not a failure.
  const outcome = outcomeOfJob(
    [],
    variants.map((variant) => ({ ...variant, comparison: undefined })),
  );
  return {
    outcome: heldOut?.verdict === HeldOutVerdict.WRONG ? Outcome.FAILED : outcome,
    summary: `${found}${champion}${unseen}`,
  };
}
