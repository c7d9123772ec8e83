import {
  ComparisonVerdict,
  COST_FINDINGS,
  HeldOutVerdict,
  Outcome,
  TimingMode,
  Verdict,
  type BenchmarkResult,
  type EntryResources,
  type Finding,
  type GateResult,
  type Job,
  type JobResult,
  type VariantResult,
} from '@flashcore/shared/contract';
import { isSdpa } from '@flashcore/shared/rivals';
import { FEWEST_SAMPLES, figureOfEntries, formatShape } from '@flashcore/shared/kernels';
import { knowsPercentile } from '@flashcore/shared/statistics';
import { bounded, compilerText, feedbackText, profileText, verifyText } from './feedback.ts';

/** Version of the document; readers refuse a version that they do not know. */
const EVALUATION_VERSION = 1;

/** The last stage that a candidate reached. */
type Stage = 'source' | 'precheck' | 'build' | 'verify' | 'benchmark' | 'compare';

/** The result of `fa-tui evaluate`: one document of bounded size for every caller. Higher scores are better. */
export interface Evaluation {
  readonly version: typeof EVALUATION_VERSION;
  readonly correct: boolean;
  readonly stage: Stage;
  readonly combined_score: number;
  /** Only finite numbers. A metric that was not measured is left out. */
  readonly metrics: Readonly<Record<string, number>>;
  readonly text_feedback: string;
  readonly artifacts: Readonly<Record<string, string>>;
  /** The job; empty if the candidate was judged without one. */
  readonly experiment: string;
  readonly provenance: Readonly<Record<string, string | number | boolean>>;
}

/** Scores of wrong candidates. They rise from stage to stage so that a search makes progress. */
export const SCORES = { NOT_BUILT: 0, BUILT: 0.1, RAN: 0.2, SHARE_OF_CASES: 0.1, RIGHT_AT_LEAST: 0.4 } as const;

const MAX_ARTIFACT = 8 * 1024;
const MAX_FEEDBACK = 4 * 1024;

/**
 * Part of the reason why a comparison was not judged, if the candidate's output was wrong while it was timed. There is
 * no finding for this.
 */
const WRONG_WHILE_COMPARED = "the candidate's output was wrong";

/** Findings that make a candidate wrong, worst first. */
const gravestFindings = ({ findings }: Pick<VariantResult, 'findings'>): Finding[] =>
  findings.filter(({ kind }) => !COST_FINDINGS.has(kind));

/**
 * Gates of a plan named by the user that reject the candidate. The comparison with the champion is left out because it
 * determines the score: a slower candidate is still correct.
 */
const rejectingGates = (variant: Pick<VariantResult, 'gates'> | undefined, plan: string): GateResult[] =>
  plan === ''
    ? []
    : (variant?.gates ?? []).filter(
        ({ level, verdict, metric }) =>
          level === 'hard' && verdict === Verdict.FAIL && metric !== 'speedup_vs_champion',
      );

/** Requirements on a candidate besides its cases. */
interface Wanted {
  /** Shapes that must have passed. A required shape counts as failed if the candidate's own manifest refuses it. */
  readonly required?: readonly string[] | undefined;
  /** Name of the user's plan. If empty, a candidate is judged only by whether its output is correct. */
  readonly plan?: string | undefined;
}

/** True if a candidate was built and verified, and every check found it correct. */
export function isCorrect(result: JobResult | undefined, { required = [], plan = '' }: Wanted = {}): boolean {
  const variant = askedVariant(result);
  if (!variant?.build?.succeeded || !variant.verify || gravestFindings(variant).length > 0) return false;
  if (rejectingGates(variant, plan).length > 0) return false;
  const { cases } = variant.verify;
  const passed = new Set(
    cases.flatMap(({ shape, verdict }) => (shape && verdict === Verdict.PASS ? [formatShape(shape)] : [])),
  );
  return (
    passed.size > 0 &&
    cases.every(({ verdict }) => verdict === Verdict.PASS || verdict === Verdict.NOT_MEASURED) &&
    required.every((shape) => passed.has(shape)) &&
    variant.heldOut?.verdict !== HeldOutVerdict.WRONG &&
    !(variant.comparison?.shapes ?? []).some(({ reason }) => reason.includes(WRONG_WHILE_COMPARED))
  );
}

/** The variant that was requested. */
export const askedVariant = (result: JobResult | undefined): VariantResult | undefined =>
  result?.variants.find(({ fallback }) => !fallback);

/** Shapes that passed. */
export const passedShapes = (result: JobResult | undefined): string[] =>
  (askedVariant(result)?.verify?.cases ?? []).flatMap(({ shape, verdict }) =>
    shape && verdict === Verdict.PASS ? [formatShape(shape)] : [],
  );

interface EvaluatedJob extends Wanted {
  readonly job: Pick<Job, 'name' | 'outcome' | 'summary'>;
  readonly result: JobResult | undefined;
}

/** The evaluation of an ended experiment. */
export function evaluationOf({ job, result, required = [], plan = '' }: EvaluatedJob): Evaluation {
  const variant = askedVariant(result);
  const correct = isCorrect(result, { required, plan });
  const metrics = metricsOf(result, variant);
  const score = scoreOf({ correct, variant, metrics, required });
  return {
    version: EVALUATION_VERSION,
    correct,
    stage: stageOf(result, variant),
    combined_score: score,
    metrics: { combined_score: score, ...metrics },
    text_feedback: bounded(
      feedbackText({
        result,
        variant,
        correct,
        required,
        rejecting: rejectingGates(variant, plan),
        summary: job.summary,
        timedOut: job.outcome === Outcome.TIMED_OUT,
      }),
      MAX_FEEDBACK,
    ),
    artifacts: artifactsOf(variant),
    experiment: job.name,
    provenance: provenanceOf(result, variant),
  };
}

/** A candidate without a job, because its folder, manifest or answer is wrong. */
export const refusedEvaluation = (reason: string): Evaluation => ({
  version: EVALUATION_VERSION,
  correct: false,
  stage: 'source',
  combined_score: SCORES.NOT_BUILT,
  metrics: { combined_score: SCORES.NOT_BUILT },
  text_feedback: bounded(reason, MAX_FEEDBACK),
  artifacts: {},
  experiment: '',
  provenance: {},
});

interface Scored {
  correct: boolean;
  variant: VariantResult | undefined;
  metrics: Record<string, number>;
  required: readonly string[];
}

function scoreOf(of: Scored): number {
  const { correct, variant, metrics, required } = of;
  if (correct) {
    // A candidate that was compared but not judged gets a speedup of 1. The speedup over SDPA is used only if there was
    // no comparison, because it is on another scale.
    const speedup = metrics['speedup'] ?? (variant?.comparison ? 1 : (metrics['speedup_over_sdpa'] ?? 1));
    // A candidate that is faster only on the shapes that it was shown gets no higher score.
    const most = stoodHeldOut(variant) ? speedup : Math.min(1, speedup);
    return Math.max(SCORES.RIGHT_AT_LEAST, most);
  }
  if (!variant?.build?.succeeded) return SCORES.NOT_BUILT;
  const cases = variant.verify?.cases.length ?? 0;
  if (cases === 0) return SCORES.BUILT;
  const share = (variant.verify?.passedCases ?? 0) / Math.max(cases, required.length);
  return SCORES.RAN + SCORES.SHARE_OF_CASES * share;
}

/** False if the held-out shapes reject the candidate; true also if they were not tried. */
export const stoodHeldOut = (variant: Pick<VariantResult, 'heldOut'> | undefined): boolean =>
  variant?.heldOut === undefined || variant.heldOut.verdict === HeldOutVerdict.PASSED;

function stageOf(result: JobResult | undefined, variant: VariantResult | undefined): Stage {
  if (!variant?.build) return result?.prechecks.some(({ verdict }) => verdict === Verdict.FAIL) ? 'precheck' : 'build';
  if (variant.comparison) return 'compare';
  if (variant.benchmarks.length > 0) return 'benchmark';
  return variant.verify ? 'verify' : 'build';
}

function metricsOf(result: JobResult | undefined, variant: VariantResult | undefined): Record<string, number> {
  const metrics = new Map<string, number>();
  const put = (name: string, value: number | undefined): void => {
    if (value !== undefined && Number.isFinite(value)) metrics.set(name, value);
  };
  // Cases with NaN or Inf are left out, because they have no largest error.
  const cases = (variant?.verify?.cases ?? []).filter(
    ({ verdict, nanCount, infCount, elements }) =>
      verdict !== Verdict.NOT_MEASURED && elements > 0n && nanCount + infCount === 0n,
  );
  put('cases', variant?.verify?.cases.length);
  put('cases_passed', variant?.verify?.passedCases);
  if (cases.length > 0) put('max_abs_err', Math.max(...cases.map(({ maxAbsError }) => maxAbsError)));
  const entries = launchedEntries(variant);
  put('registers', figureOfEntries('registers_per_thread', entries));
  put('smem_bytes', figureOfEntries('smem_bytes_per_cta', entries));
  put('spill_bytes', figureOfEntries('spill_bytes', entries));
  put('ctas_per_sm', figureOfEntries('theoretical_ctas_per_sm', entries));
  const hot = hotFigure(variant);
  put('median_us', hot?.latency?.p50Us);
  if (hot?.latency && hot.latency.samples >= FEWEST_SAMPLES.interval) {
    put('median_low_us', hot.latency.p50LowUs);
    put('median_high_us', hot.latency.p50HighUs);
  }
  if (hot?.latency && knowsPercentile(hot.latency.samples, 0.9)) put('p90_us', hot.latency.p90Us);
  put('tflops', hot?.tflops);
  put('speedup_over_sdpa', sdpaSpeedup(hot));
  put('speedup', championSpeedup(variant));
  put('device_seconds', result?.deviceSeconds);
  put('cost_usd', result?.costUsd);
  return Object.fromEntries(metrics);
}

/**
 * The entries that the timed shapes launch, which the gates judge too; all entries if it is unknown which shape
 * launches which entry.
 */
function launchedEntries(variant: VariantResult | undefined): readonly EntryResources[] {
  const shapes = new Set(variant?.benchmarks.flatMap(({ shape }) => (shape ? [formatShape(shape)] : [])));
  const entries = variant?.build?.entries ?? [];
  const launched = entries.filter((entry) => entry.shapes.some((shape) => shapes.has(shape)));
  return launched.length > 0 ? launched : entries;
}

/** The hot benchmark, if it was measured on a GPU and is valid. */
const hotFigure = (variant: VariantResult | undefined): BenchmarkResult | undefined =>
  variant?.benchmarks.find(({ mode, simulated, valid }) => mode === TimingMode.HOT && !simulated && valid);

/** Speedup over the fastest SDPA backend, which is the smallest of the speedups. */
function sdpaSpeedup(hot: BenchmarkResult | undefined): number | undefined {
  const speedups = (hot?.sdpa ?? []).filter(isSdpa).map(({ speedup }) => speedup);
  return speedups.length > 0 ? Math.min(...speedups) : undefined;
}

/**
 * Geometric mean of a comparison's hot ratios over the shapes, on a real device. Undefined if nothing was measured or
 * if a shape was not judged.
 */
export function championSpeedup(variant: VariantResult | undefined): number | undefined {
  const hot = (variant?.comparison?.shapes ?? []).filter(({ mode }) => mode === TimingMode.HOT);
  if (hot.some(({ verdict }) => verdict === ComparisonVerdict.NOT_JUDGED)) return undefined;
  const ratios = hot.flatMap(({ time, simulated }) => (time && !simulated ? [time.ratio] : []));
  if (ratios.length === 0) return undefined;
  return Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length);
}

function artifactsOf(variant: VariantResult | undefined): Record<string, string> {
  if (!variant) return {};
  const texts = { compiler: compilerText(variant), verify: verifyText(variant), profile: profileText(variant) };
  return Object.fromEntries(
    Object.entries(texts).flatMap(([name, text]) => (text === '' ? [] : [[name, bounded(text, MAX_ARTIFACT)]])),
  );
}

function provenanceOf(result: JobResult | undefined, variant: VariantResult | undefined): Evaluation['provenance'] {
  const birth = result?.provenance;
  if (!birth) return {};
  return {
    runner_version: birth.runnerVersion,
    runner_build_id: birth.runnerBuildId,
    device: birth.device?.name ?? '',
    arch: birth.device?.arch ?? '',
    simulated: birth.device?.simulated ?? false,
    protocol: birth.protocol,
    source_digest: birth.sourceDigest,
    flags_digest: birth.flagsDigest ?? '',
    build_id: variant?.build?.buildId ?? '',
    variant: variant?.label ?? '',
    scored_against: scoredAgainst(variant),
  };
}

function scoredAgainst(variant: VariantResult | undefined): string {
  if (championSpeedup(variant) !== undefined) return variant?.comparison?.champion?.label ?? '';
  if (variant?.comparison) return 'nothing: the comparison was not judged, a right kernel scores 1';
  const sdpa = hotFigure(variant)?.sdpa ?? [];
  return sdpa.some(isSdpa) ? 'the fastest SDPA backend' : 'nothing: not timed on a GPU, a right kernel scores 1';
}
