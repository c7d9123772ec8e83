/**
 * Derives a job's outcome from its results, and an exit code from the outcome. The runner and the commands share this
 * rule.
 */
import type { ErrorReasonName } from './errors.ts';
import { Outcome } from '../generated/flashcore/runner/v1/job_pb.js';
import { FindingKind } from '../generated/flashcore/runner/v1/kernel_pb.js';
import {
  ComparisonVerdict,
  type PrecheckItem,
  type VariantResult,
  Verdict,
  type CaseResult,
  type VerifyResult,
} from '../generated/flashcore/runner/v1/result_pb.js';

/** 0: everything passed; 1: a check or gate failed; 2: bad usage; 3: the runner could not do it. */
export type ExitCode = 0 | 1 | 2 | 3;

/**
 * Findings about a kernel's cost, not its output. Only gates judge them; a job without gates, such as a verification,
 * passes with them.
 */
export const COST_FINDINGS: ReadonlySet<FindingKind> = new Set([
  FindingKind.REGISTER_SPILLS,
  FindingKind.BANK_CONFLICTS,
]);

/** The job's outcome for each kind of finding, except those about cost. */
const FINDING_OUTCOMES: Partial<Record<FindingKind, Outcome>> = {
  [FindingKind.COMPILE_FAILED]: Outcome.COMPILE_FAILED,
  [FindingKind.COMPILE_TIMED_OUT]: Outcome.TIMED_OUT,
  [FindingKind.MISSING_ENTRY]: Outcome.FAILED,
  [FindingKind.WRONG_ARGUMENTS]: Outcome.FAILED,
  [FindingKind.SMEM_LIMIT]: Outcome.FAILED,
  [FindingKind.OUT_OF_BOUNDS]: Outcome.CRASHED,
  [FindingKind.MISALIGNED_ADDRESS]: Outcome.CRASHED,
  [FindingKind.DEADLOCK]: Outcome.CRASHED,
  [FindingKind.TRAP]: Outcome.CRASHED,
  [FindingKind.LAUNCH_FAILED]: Outcome.CRASHED,
  [FindingKind.CRASHED]: Outcome.CRASHED,
  [FindingKind.TIMED_OUT]: Outcome.TIMED_OUT,
  [FindingKind.OUT_OF_MEMORY]: Outcome.OUT_OF_MEMORY,
  [FindingKind.RACE]: Outcome.WRONG_RESULT,
  [FindingKind.UNINITIALISED_READ]: Outcome.WRONG_RESULT,
  [FindingKind.INVALID_WARP_MASK]: Outcome.CRASHED,
  [FindingKind.NAN_OUTPUT]: Outcome.WRONG_RESULT,
  [FindingKind.UNWRITTEN_OUTPUT]: Outcome.WRONG_RESULT,
  [FindingKind.WRONG_RESULT]: Outcome.WRONG_RESULT,
  [FindingKind.INPUT_MODIFIED]: Outcome.WRONG_RESULT,
  [FindingKind.WORK_SKIPPED]: Outcome.WRONG_RESULT,
  [FindingKind.IMPLAUSIBLE_TIME]: Outcome.FAILED,
  [FindingKind.KEEPS_STATE]: Outcome.FAILED,
};

/** The outcome to report if a variant has several: the first of these. */
const WORST_FIRST: readonly Outcome[] = [
  Outcome.COMPILE_FAILED,
  Outcome.TIMED_OUT,
  Outcome.OUT_OF_MEMORY,
  Outcome.CRASHED,
  Outcome.WRONG_RESULT,
  Outcome.FAILED,
];

type JudgedVariant = Omit<VariantResult, 'comparison'> & { comparison?: VariantResult['comparison'] | undefined };

/** The outcome of one variant: its build, findings, cases and hard gates. Unmeasured values fail nothing. */
export function outcomeOfVariant(variant: JudgedVariant): Outcome {
  const outcomes = variant.findings.map(({ kind }) => FINDING_OUTCOMES[kind]);
  if (variant.build && !variant.build.succeeded && !outcomes.includes(Outcome.TIMED_OUT))
    outcomes.push(Outcome.COMPILE_FAILED);
  if (variant.verify?.cases.some(({ verdict }) => verdict === Verdict.FAIL)) outcomes.push(Outcome.WRONG_RESULT);
  if (variant.gates.some(({ verdict, level }) => verdict === Verdict.FAIL && level === 'hard'))
    outcomes.push(Outcome.FAILED);
  // If there are gates, they decide what a regression means.
  if (variant.gates.length === 0 && variant.comparison?.verdict === ComparisonVerdict.SLOWER)
    outcomes.push(Outcome.FAILED);
  return WORST_FIRST.find((outcome) => outcomes.includes(outcome)) ?? Outcome.PASSED;
}

/**
 * The outcome of a job: FAILED if a precheck failed, else the outcome of the requested variant. A fallback that ran
 * along with that variant does not change it. If the plan continues with the fallback (`fellBack`), its build, findings
 * and cases decide, because the gates are about the variant it replaces.
 */
export function outcomeOfJob(
  prechecks: readonly PrecheckItem[],
  variants: readonly VariantResult[],
  { fellBack = false }: { fellBack?: boolean } = {},
): Outcome {
  if (prechecks.some(({ verdict }) => verdict === Verdict.FAIL)) return Outcome.FAILED;
  const fallback = fellBack ? variants.find((variant) => variant.fallback) : undefined;
  if (fallback) return outcomeOfVariant({ ...fallback, gates: [], comparison: undefined });
  const asked = variants.find((variant) => !variant.fallback);
  return asked ? outcomeOfVariant(asked) : Outcome.PASSED;
}

/** The exit code of a command for a job's outcome. */
export function exitCodeOfOutcome(outcome: Outcome): ExitCode {
  switch (outcome) {
    case Outcome.PASSED:
      return 0;
    case Outcome.UNSPECIFIED:
    case Outcome.CANCELLED:
    case Outcome.ERROR:
    case Outcome.INTERRUPTED:
      return 3;
    case Outcome.FAILED:
    case Outcome.COMPILE_FAILED:
    case Outcome.WRONG_RESULT:
    case Outcome.CRASHED:
    case Outcome.TIMED_OUT:
    case Outcome.OUT_OF_MEMORY:
      return 1;
    default:
      return 3; // an outcome that only a newer runner knows
  }
}

const USAGE_ERRORS: ReadonlySet<ErrorReasonName> = new Set<ErrorReasonName>([
  'INVALID_REQUEST',
  'KERNEL_NOT_FOUND',
  'INVALID_MANIFEST',
  'INVALID_VARIANT',
  'SHAPE_UNSUPPORTED',
  'JOB_NOT_FOUND',
  'EVENTS_EXPIRED',
  'ARTIFACT_NOT_FOUND',
  'BUILD_NOT_FOUND',
  'REQUEST_ID_REUSED',
]);

/** The exit code for an error: 2 if other arguments would help, 3 otherwise. */
export const exitCodeOfError = (reason: ErrorReasonName): ExitCode => (USAGE_ERRORS.has(reason) ? 2 : 3);

/** How many of the requested cases and probes passed. */
export interface ParityCounts {
  readonly passedCases: number;
  readonly cases: number;
  readonly passedProbes: number;
  readonly probes: number;
}

const passedOf = (results: readonly CaseResult[]): number =>
  results.filter(({ verdict }) => verdict === Verdict.PASS).length;

type Verified = Pick<VerifyResult, 'cases' | 'probes' | 'drawn'>;

/** All inputs besides the cases: probes that find known mistakes, and shapes drawn for the run. */
export const allProbes = ({ probes, drawn }: Pick<Verified, 'probes' | 'drawn'>): CaseResult[] => [...probes, ...drawn];

/** The probes that count: the smallest failing shape was found from one of them, so it does not count as another. */
export const countedProbes = (verified: Pick<Verified, 'probes' | 'drawn'>): CaseResult[] =>
  allProbes(verified).filter(({ foundFrom }) => foundFrom === undefined);

export const parityCounts = (verified: Verified): ParityCounts => ({
  passedCases: passedOf(verified.cases),
  cases: verified.cases.length,
  passedProbes: passedOf(countedProbes(verified)),
  probes: countedProbes(verified).length,
});

/** "7 of 7 cases", or "7 of 7 cases and 1 of 2 probes": a kernel may pass all cases and fail a probe. */
export function parityText({ passedCases, cases, passedProbes, probes }: ParityCounts): string {
  const ofCases = `${passedCases} of ${cases} case${cases === 1 ? '' : 's'}`;
  return probes === 0 ? ofCases : `${ofCases} and ${passedProbes} of ${probes} probe${probes === 1 ? '' : 's'}`;
}

/** "7/7" for a table; mentions the probes if one failed. */
export function parityShort({ passedCases, cases, passedProbes, probes }: ParityCounts): string {
  const ofCases = cases === 0 ? '-' : `${passedCases}/${cases}`;
  return passedProbes < probes ? `${ofCases}, ${passedProbes}/${probes} probes` : ofCases;
}

export const isParity = ({ passedCases, cases, passedProbes, probes }: ParityCounts): boolean =>
  passedCases === cases && passedProbes === probes;

/** The machine that a result comes from, with its pilot if it ran on a cluster, such as "node7, pilot 12". */
export const machineText = ({ hostName, schedulerJob }: { hostName: string; schedulerJob?: string }): string =>
  `${hostName || '-'}${schedulerJob === undefined ? '' : `, pilot ${schedulerJob}`}`;
