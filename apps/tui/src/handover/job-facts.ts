/** A short summary of an ended job: parity, errors, gates and cost. Both the pages and their data use it. */
import {
  Outcome,
  Verdict,
  outcomeOfVariant,
  type GateResult,
  type GetJobResponse,
  type JobResult,
  type VariantResult,
  allProbes,
  parityCounts,
  parityText,
} from '@flashcore/shared/contract';
import { gateTitle, tallyText } from '../present/sections/gates.ts';
import { formatCost, formatError, formatSeconds } from '../present/numbers.ts';

export interface GateTally {
  readonly passed: number;
  /** Failed hard gates, which reject the candidate. */
  readonly failed: readonly string[];
  /** Other missed gates, which are shown but do not reject the candidate. */
  readonly missed: readonly string[];
  /** Number of gates that were not measured or not judged. */
  readonly open: number;
}

export function tallyOf(gates: readonly GateResult[]): GateTally {
  const judged = gates.filter(({ level }) => level !== 'off');
  const passed = judged.filter(({ verdict }) => verdict === Verdict.PASS).length;
  const failing = judged.filter(({ verdict }) => verdict === Verdict.FAIL);
  const idsOf = (hard: boolean): string[] =>
    failing.filter(({ level }) => (level === 'hard') === hard).map(({ gateId }) => gateId);
  return { passed, failed: idsOf(true), missed: idsOf(false), open: judged.length - passed - failing.length };
}

/**
 * The numbers of passed, missed and failed gates, as in every table of gates, with the titles of the gates that
 * rejected or warned.
 */
export function gatesText(gates: readonly GateResult[]): string {
  const { failed, missed } = tallyOf(gates);
  const titled = (ids: readonly string[]): string =>
    gates
      .filter(({ gateId }) => ids.includes(gateId))
      .map((gate) => `"${gateTitle(gate)}"`)
      .join(', ');
  const parts = [
    gates.length === 0 ? 'none judged' : tallyText(gates, 'gate'),
    failed.length > 0 && `rejected by ${titled(failed)}`,
    missed.length > 0 && `warned by ${titled(missed)}`,
  ];
  return parts.filter(Boolean).join('; ');
}

/**
 * True if a variant was verified, all of its cases and probes passed, and no finding makes it incorrect. Being too slow
 * or too large does not make it incorrect.
 */
export function isRight(variant: VariantResult): boolean {
  const { passedCases = 0, cases = [] } = variant.verify ?? {};
  const probes = variant.verify ? allProbes(variant.verify) : [];
  const outcome = outcomeOfVariant({ ...variant, gates: [], comparison: undefined });
  return (
    cases.length > 0 &&
    passedCases === cases.length &&
    probes.every(({ verdict }) => verdict !== Verdict.FAIL) &&
    (outcome === Outcome.PASSED || outcome === Outcome.FAILED)
  );
}

export const correctText = ({ verify }: VariantResult): string =>
  verify ? parityText(parityCounts(verify)) : 'not checked';

/** Largest error over all cases; undefined if none was compared. */
export const largestError = ({ verify }: VariantResult): number | undefined =>
  verify && verify.cases.length > 0 ? Math.max(...verify.cases.map(({ maxAbsError }) => maxAbsError)) : undefined;

export const errorText = (variant: VariantResult): string => {
  const error = largestError(variant);
  return error === undefined ? 'not measured' : formatError(error);
};

export const costText = ({ costUsd, costMissing }: Pick<JobResult, 'costUsd' | 'costMissing'>): string =>
  costUsd === undefined ? (costMissing ?? 'not known') : formatCost(costUsd);

/** Device time and dollars of several jobs, and the number of jobs whose cost is unknown. */
export function totalCost(jobs: readonly GetJobResponse[]): string {
  const results = jobs.flatMap(({ result }) => (result ? [result] : []));
  const seconds = results.reduce((sum, { deviceSeconds }) => sum + deviceSeconds, 0);
  const known = results.filter(({ costUsd }) => costUsd !== undefined);
  const dollars = known.reduce((sum, { costUsd = 0 }) => sum + costUsd, 0);
  const unknown = results.length - known.length;
  const [reason, ...others] = new Set(results.map(({ costMissing }) => costMissing));
  // The remedy for an unknown cost is shown next to the job.
  const none = (others.length === 0 && reason?.split(';')[0]) || 'cost not known';
  const cost = known.length === 0 ? none : formatCost(dollars);
  return `${formatSeconds(seconds)} of the device, ${cost}${known.length > 0 && unknown > 0 ? `, not known for ${unknown} of ${results.length} jobs` : ''}`;
}
