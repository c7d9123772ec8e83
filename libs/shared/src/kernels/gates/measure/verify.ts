/** Metrics of a verification. */
import {
  type CaseResult,
  type SdpaComparison,
  Verdict,
  type VerifyResult,
} from '../../../generated/flashcore/runner/v1/result_pb.js';
import { allProbes } from '../../../contract/outcome.ts';
import { formatShape, sameShape } from '../../shape.ts';
import type { Metric } from '../metrics.ts';
import { shapesNamed } from '../plan-gates.ts';
import { type GateContext, type Measure, type MetricAnswer, plural } from './answer.ts';
import { entryOf } from '../../../text/entry-of.ts';

export const measureVerify: Measure = (context, metric) => {
  if (!context.variant.verify) return { notMeasured: 'the kernel was not verified' };
  if (metric.name === 'parity_cases_passed') return parityCasesPassed(context);
  if (metric.name === 'cases_passed') return casesPassed(context);
  const cases = requiredCases(context, metric);
  return 'notMeasured' in cases ? cases : ofCases(metric.name, cases);
};

const ERRORS: Readonly<Record<string, (result: CaseResult) => number>> = {
  max_abs_error: ({ maxAbsError }) => maxAbsError,
  mean_abs_error: ({ meanAbsError }) => meanAbsError,
  rms_error: ({ rmsError }) => rmsError,
  max_rel_error: ({ maxRelError }) => maxRelError,
  p999_abs_error: ({ p999AbsError }) => p999AbsError,
};

const COUNTS: Readonly<Record<string, (result: CaseResult) => number>> = {
  mismatches: ({ mismatches }) => Number(mismatches),
  nan_inf_elements: ({ nanCount, infCount }) => Number(nanCount) + Number(infCount),
  unwritten_elements: ({ unwrittenCount }) => Number(unwrittenCount),
};

const DIFFERENCES: Readonly<Record<string, (sdpa: SdpaComparison) => number>> = {
  sdpa_max_abs_difference: ({ maxAbsDifference }) => maxAbsDifference,
  sdpa_mean_abs_difference: ({ meanAbsDifference }) => meanAbsDifference,
};

function ofCases(name: string, cases: CaseResult[]): MetricAnswer {
  if (Object.hasOwn(ERRORS, name)) return worstError(cases, entryOf(ERRORS, name)!);
  if (Object.hasOwn(COUNTS, name)) return countOver(cases, entryOf(COUNTS, name)!);
  if (Object.hasOwn(DIFFERENCES, name)) return worstDifference(cases, entryOf(DIFFERENCES, name)!);
  return name === 'deterministic_cases' ? deterministicCases(cases) : fp16RuleCases(cases);
}

function worstError(cases: CaseResult[], valueOf: (result: CaseResult) => number): MetricAnswer {
  const worst = cases.reduce((a, b) => (valueOf(b) > valueOf(a) || Number.isNaN(valueOf(b)) ? b : a));
  return Number.isFinite(valueOf(worst))
    ? { value: valueOf(worst), detail: `at ${formatShape(worst.shape!)}` }
    : { notMeasured: `the output has NaN or Inf at ${formatShape(worst.shape!)}` };
}

function countOver(cases: CaseResult[], valueOf: (result: CaseResult) => number): MetricAnswer {
  const first = cases.find((each) => valueOf(each) > 0);
  return {
    value: cases.reduce((sum, each) => sum + valueOf(each), 0),
    detail: `${plural(cases.length, 'case')}${first ? `, first at ${formatShape(first.shape!)}` : ''}`,
  };
}

function worstDifference(cases: CaseResult[], valueOf: (sdpa: SdpaComparison) => number): MetricAnswer {
  const all = cases.flatMap((each) =>
    each.sdpa.flatMap((sdpa) => (sdpa.missing === undefined ? [{ sdpa, shape: each.shape! }] : [])),
  );
  const [first, ...rest] = all;
  if (!first) return { notMeasured: cases.find(({ sdpaMissing }) => sdpaMissing)?.sdpaMissing ?? 'SDPA was not run' };
  const worst = rest.reduce((a, b) => (valueOf(b.sdpa) > valueOf(a.sdpa) ? b : a), first);
  return {
    value: valueOf(worst.sdpa),
    detail: `${worst.sdpa.backend} at ${formatShape(worst.shape)}`,
    source: worst.sdpa.version,
  };
}

function deterministicCases(cases: CaseResult[]): MetricAnswer {
  const run = cases.filter(({ deterministic }) => deterministic !== undefined);
  if (run.length < cases.length)
    return { notMeasured: `${cases.length - run.length} of ${cases.length} cases were not run twice` };
  return shareOf(
    run.filter(({ deterministic }) => deterministic),
    run,
  );
}

function fp16RuleCases(cases: CaseResult[]): MetricAnswer {
  const judged = cases.filter(
    ({ flashAttentionRule }) => flashAttentionRule === Verdict.PASS || flashAttentionRule === Verdict.FAIL,
  );
  if (judged.length < cases.length)
    return {
      notMeasured: `the plain reference was not computed for ${cases.length - judged.length} of ${cases.length} cases`,
    };
  return shareOf(
    judged.filter(({ flashAttentionRule }) => flashAttentionRule === Verdict.PASS),
    cases,
  );
}

const wasRun = ({ verdict }: CaseResult): boolean => verdict === Verdict.PASS || verdict === Verdict.FAIL;

/** The cases of the metric's set (default: parity), if all of them were run. */
function requiredCases(context: GateContext, { shape }: Metric): CaseResult[] | { notMeasured: string } {
  const set = shape ?? 'parity';
  const wanted = shapesNamed(set, context.cases);
  const run = casesOf(context, set);
  const missing = wanted.length - run.length;
  if (missing === 0) return run;
  const reason = context.variant.verify!.cases.find((each) => !wasRun(each))?.reason;
  return {
    notMeasured: `${missing} of ${wanted.length} ${set} cases were not run${reason ? `: ${reason}` : ''}`,
  };
}

function casesOf({ variant: { verify: result }, cases }: GateContext, set: string): CaseResult[] {
  return shapesNamed(set, cases).flatMap((shape) => {
    const found = result?.cases.find((each) => each.shape && sameShape(each.shape, shape));
    return found && wasRun(found) ? [found] : [];
  });
}

/** The share of passed cases among those that were run, because a kernel may refuse a shape. */
function casesPassed({ variant: { verify }, verified }: GateContext): MetricAnswer {
  const run = [...verify!.cases.filter(wasRun), ...failedProbes(verify)];
  if (run.length === 0) return { notMeasured: verify!.cases[0]?.reason || 'no case was run' };
  const share = shareOf(
    run.filter(({ verdict }) => verdict === Verdict.PASS),
    run,
  );
  return { ...share, partial: run.length < verified.length };
}

/**
 * A failed case fails the gate even if others were not run. The profile must be parity, or a stricter one that all
 * cases pass.
 */
function parityCasesPassed(context: GateContext): MetricAnswer {
  const {
    variant: { verify: result },
    cases: { tolerances },
  } = context;
  const parity = requiredCases(context, { name: '' });
  const cases = 'notMeasured' in parity ? parity : [...parity, ...failedOthers(context), ...failedProbes(result)];
  if ('notMeasured' in cases) {
    const run = [...casesOf(context, 'parity'), ...failedOthers(context), ...failedProbes(result)];
    // One failed case is enough to fail, even a case that the client chose. The share covers the cases that were run,
    // and the detail gives the number of cases that were not.
    if (result?.tolerance?.profile !== 'parity' || run.every(({ verdict }) => verdict !== Verdict.FAIL)) return cases;
    const { value, detail } = shareOf(
      run.filter(({ verdict }) => verdict === Verdict.PASS),
      run,
      failedProbes(result).length,
    );
    return { value, detail: `${detail}; ${cases.notMeasured}` };
  }
  const passed = cases.filter(({ verdict }) => verdict === Verdict.PASS);
  const { absolute = Infinity, relative = Infinity, profile = '' } = result?.tolerance ?? {};
  const { atol, rtol } = tolerances['parity']!.fp16;
  const same = profile === 'parity' || (absolute === atol && relative === rtol);
  const stricter = absolute <= atol && relative <= rtol;
  if (!same && !(stricter && passed.length === cases.length))
    return {
      notMeasured: `verified with ${profile || `atol ${absolute} rtol ${relative}`}, which says nothing about the parity profile`,
    };
  return shareOf(passed, cases, failedProbes(result).length);
}

/** Failed cases of shapes outside the parity set. */
function failedOthers({ variant: { verify: result }, cases }: GateContext): CaseResult[] {
  const isParityShape = ({ shape }: CaseResult): boolean =>
    shapesNamed('parity', cases).some((each) => shape !== undefined && sameShape(each, shape));
  return (result?.cases ?? []).filter((each) => each.verdict === Verdict.FAIL && !isParityShape(each));
}

/**
 * A failed probe counts as a failed case. Passed probes do not count, so the share of a correct kernel is only about
 * its cases.
 */
const failedProbes = (result: VerifyResult | undefined): CaseResult[] =>
  result ? allProbes(result).filter(({ verdict }) => verdict === Verdict.FAIL) : [];

const describeFailure = ({ shape, reason }: CaseResult) => `${formatShape(shape!)}${reason ? ` (${reason})` : ''}`;

/**
 * `probes` of the `cases` are failed probes. The text counts them separately, because "cases" never includes probes in
 * any other count.
 */
function shareOf(passed: CaseResult[], cases: CaseResult[], probes = 0): { value: number; detail: string } {
  const failed = cases.find((each) => !passed.includes(each));
  const seeds = Math.min(...cases.map((each) => each.seeds));
  const judged = cases.length - probes;
  const alsoFailed = plural(probes, 'failed probe');
  const counts = [
    ...(judged > 0 ? [`${passed.length} of ${judged} cases${probes > 0 ? ' pass' : ''}`] : []),
    ...(probes > 0
      ? [judged > 0 ? `and ${alsoFailed} ${probes === 1 ? 'counts' : 'count'} as failed` : alsoFailed]
      : []),
    ...(seeds > 0 ? [`${plural(seeds, 'seed')} each`] : []),
  ];
  return {
    value: passed.length / cases.length,
    detail: `${counts.join(', ')}${failed ? `; first failing ${describeFailure(failed)}` : ''}`,
  };
}
