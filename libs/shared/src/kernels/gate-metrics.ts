/** What a gate can ask for: metric by metric, the value in a variant's result or why there is none. */
import type { Cases } from './cases.ts';
import type { Gate, GateContext } from './gates.ts';
import type { Shape } from '../generated/flashcore/runner/v1/kernel_pb.js';
import {
  type BenchmarkResult,
  type CaseResult,
  ComparisonVerdict,
  type EntryResources,
  type RatioInterval,
  StopReason,
  TimingMode,
  Verdict,
} from '../generated/flashcore/runner/v1/result_pb.js';
import { formatShape, sameShape } from './shape.ts';

export const GATE_PHASES = ['build', 'verify', 'benchmark', 'profile', 'history'] as const;
export type GatePhase = (typeof GATE_PHASES)[number];

/**
 * A value with what stands behind it, or why there is none. `source` is set where it is more exact than the gate's own
 * text.
 */
export type MetricAnswer =
  { value: number; detail: string; source?: string } | { notMeasured: string; source?: string };

interface GateMetric {
  phase: GatePhase;
  measure: (context: GateContext, gate: Gate) => MetricAnswer;
}

const EMULATOR_TIMES = 'emulator times are not GPU times';

export const GATE_METRICS = {
  registers_per_thread: build('highest', ({ registersPerThread }) => registersPerThread),
  smem_bytes_per_cta: build(
    'highest',
    ({ staticSmemBytes, dynamicSmemBytes }) => staticSmemBytes + dynamicSmemBytes,
    ({ staticSmemBytes, dynamicSmemBytes }) => `${staticSmemBytes} B static, ${dynamicSmemBytes} B dynamic`,
  ),
  spill_bytes: build(
    'highest',
    ({ spillStoreBytes, spillLoadBytes }) => spillStoreBytes + spillLoadBytes,
    ({ spillStoreBytes, spillLoadBytes }) => `${spillStoreBytes} B stored, ${spillLoadBytes} B loaded`,
  ),
  local_bytes: build('highest', ({ stackBytes }) => stackBytes),
  theoretical_ctas_per_sm: occupancy(({ ctasPerSm }) => ctasPerSm),
  theoretical_occupancy_percent: occupancy(({ occupancyPercent }) => occupancyPercent),

  parity_cases_passed: { phase: 'verify', measure: parityCasesPassed },
  fp16_rule_cases_passed: verify((cases) => {
    const judged = cases.filter(
      ({ flashAttentionRule }) => flashAttentionRule === Verdict.PASS || flashAttentionRule === Verdict.FAIL,
    );
    if (judged.length < cases.length)
      return {
        notMeasured: `the plain fp16 reference was not computed for ${cases.length - judged.length} of ${cases.length} cases`,
      };
    return shareOf(
      judged.filter(({ flashAttentionRule }) => flashAttentionRule === Verdict.PASS),
      cases,
    );
  }),
  max_abs_error: verify((cases) => {
    const worst = cases.reduce((a, b) => (b.maxAbsError > a.maxAbsError || Number.isNaN(b.maxAbsError) ? b : a));
    return Number.isFinite(worst.maxAbsError)
      ? { value: worst.maxAbsError, detail: `at ${formatShape(worst.shape!)}` }
      : { notMeasured: `the output has NaN or Inf at ${formatShape(worst.shape!)}` };
  }),

  latency_p50_us: benchmark((result) => {
    const { p50Us, p50LowUs, p50HighUs, samples } = result.latency!;
    return {
      value: p50Us,
      detail: `${formatShape(result.shape!)}, cold, ${samples} samples, 95 % interval ${p50LowUs.toFixed(2)} to ${p50HighUs.toFixed(2)} us`,
    };
  }),
  speedup_vs_sdpa: benchmark((result) => {
    const slowest = leastSpeedup(result);
    return slowest
      ? {
          value: slowest.speedup,
          detail: `fastest backend ${slowest.name}, 95 % interval ${slowest.speedupLow.toFixed(3)} to ${slowest.speedupHigh.toFixed(3)}`,
        }
      : { notMeasured: result.sdpaMissing || 'no SDPA sdpa was measured' };
  }),
  shapes_10_percent_faster_than_sdpa: { phase: 'benchmark', measure: shapesFasterThanSdpa },

  tensor_pipe_percent: profile('tensor_pipe_percent'),
  dram_throughput_percent: profile('dram_throughput_percent'),
  smem_bank_conflict_percent: profile('smem_bank_conflict_percent'),
  resident_ctas_per_sm: profile('resident_ctas_per_sm'),

  // Beside a champion in the same job a stored figure of another day has nothing to say.
  speedup_vs_best_accepted: interleavedElse(
    'least',
    (ratio) => ratio.ratio,
    history((best, own) => best.p50Us / own.p50Us),
  ),
  // Both intervals at their worst: lower than the interval of the ratio, so that a stored figure from another day is
  // not believed too easily.
  speedup_vs_best_accepted_low: interleavedElse(
    'greatest',
    (ratio) => ratio.low,
    history((best, own) => best.p50LowUs / own.p50HighUs),
  ),
} satisfies Record<string, GateMetric>;

export type GateMetricName = keyof typeof GATE_METRICS;

/** The extreme over a kernel's entries of something that ptxas reports. */
function build(
  which: 'highest' | 'lowest',
  valueOf: (entry: EntryResources) => number,
  explain?: (entry: EntryResources) => string,
): GateMetric {
  return {
    phase: 'build',
    measure({ variant: { build: result, benchmarks }, cases }) {
      if (!result) return { notMeasured: 'the kernel was not built' };
      if (!result.succeeded) return { notMeasured: 'the kernel does not compile' };
      const { entries, shapes } = launchedEntries(result.entries, benchmarks, cases);
      const [first, ...rest] = entries;
      if (!first) return { notMeasured: result.entriesMissing || 'the compiler reported no entry' };
      const worst = rest.reduce(
        (a, b) => ((which === 'highest' ? valueOf(b) > valueOf(a) : valueOf(b) < valueOf(a)) ? b : a),
        first,
      );
      const what = explain ? `${worst.entry}: ${explain(worst)}` : worst.entry;
      const others = result.entries.length - entries.length;
      const launched =
        others > 0 ? `; ${others} more ${others === 1 ? 'entry is' : 'entries are'} not launched for ${shapes}` : '';
      return {
        value: valueOf(worst),
        detail: `${what}${rest.length > 0 ? `, the ${which} of ${entries.length} entries` : ''}${launched}`,
        source: `ptxas ${worst.arch}`,
      };
    },
  };
}

/**
 * The entries that the benchmarked shapes launch (before a benchmark, the canonical ones); all of them where nobody
 * knows what launches which.
 */
function launchedEntries(
  entries: readonly EntryResources[],
  benchmarks: readonly BenchmarkResult[],
  cases: Cases,
): { entries: readonly EntryResources[]; shapes: string } {
  const measured = benchmarks.flatMap(({ shape }) => shape ?? []);
  const shapes = [...new Set((measured.length > 0 ? measured : cases.sets.canonical).map(formatShape))];
  const launched = entries.filter((entry) => entry.shapes.some((shape) => shapes.includes(shape)));
  return { entries: launched.length > 0 ? launched : entries, shapes: shapes.join(', ') };
}

/** As build, for what was calculated from a data sheet. */
function occupancy(valueOf: (entry: EntryResources) => number): GateMetric {
  const { measure } = build(
    'lowest',
    valueOf,
    ({ occupancyLimiter, threadsPerCta }) => `${threadsPerCta} threads, bound by ${occupancyLimiter}`,
  );
  return {
    phase: 'build',
    measure(context, gate) {
      const unknown = context.variant.build?.entries.find(({ occupancyLimiter }) => occupancyLimiter === '');
      if (unknown) return { notMeasured: `no data sheet for ${unknown.arch || 'the architecture'}` };
      const answer = measure(context, gate);
      return 'value' in answer
        ? { ...answer, source: `ptxas and data sheet ${context.variant.build!.entries[0]!.arch}` }
        : answer;
    },
  };
}

/** The parity cases of a verification, if all of them were run. */
function parityCases(context: GateContext): CaseResult[] | { notMeasured: string } {
  const {
    variant: { verify: result },
    cases,
  } = context;
  if (!result) return { notMeasured: 'the kernel was not verified' };
  const run = parityCasesRun(context);
  const missing = cases.sets.parity.length - run.length;
  if (missing === 0) return run;
  const reason = result.cases.find(({ verdict }) => verdict === Verdict.NOT_MEASURED)?.reason;
  return {
    notMeasured: `${missing} of ${cases.sets.parity.length} parity cases were not run${reason ? `: ${reason}` : ''}`,
  };
}

function parityCasesRun({ variant: { verify: result }, cases }: GateContext): CaseResult[] {
  return cases.sets.parity.flatMap((shape) => {
    const found = result?.cases.find((each) => each.shape && sameShape(each.shape, shape));
    return found && found.verdict !== Verdict.NOT_MEASURED && found.verdict !== Verdict.UNSPECIFIED ? [found] : [];
  });
}

function verify(valueOf: (cases: CaseResult[]) => MetricAnswer): GateMetric {
  return {
    phase: 'verify',
    measure(context) {
      const cases = parityCases(context);
      return 'notMeasured' in cases ? cases : valueOf(cases);
    },
  };
}

/**
 * A case that fails fails the gate even when others were not run; the profile must be the parity one, or a stricter one
 * that all pass.
 */
function parityCasesPassed(context: GateContext): MetricAnswer {
  const {
    variant: { verify: result },
    cases: { tolerances },
  } = context;
  const cases = parityCases(context);
  if ('notMeasured' in cases) {
    const run = parityCasesRun(context);
    // One that fails is enough to know that it is not all; the share is of those that were run, and the detail says how
    // many were not.
    if (result?.tolerance?.profile !== 'parity' || run.every(({ verdict }) => verdict !== Verdict.FAIL)) return cases;
    const { value, detail } = shareOf(
      run.filter(({ verdict }) => verdict === Verdict.PASS),
      run,
    );
    return { value, detail: `${detail}; ${cases.notMeasured}` };
  }
  const passed = cases.filter(({ verdict }) => verdict === Verdict.PASS);
  const { absolute = Infinity, relative = Infinity, profile = '' } = result?.tolerance ?? {};
  const { atol, rtol } = tolerances['parity']!;
  const same = profile === 'parity' || (absolute === atol && relative === rtol);
  const stricter = absolute <= atol && relative <= rtol;
  if (!same && !(stricter && passed.length === cases.length))
    return {
      notMeasured: `verified with ${profile || `atol ${absolute} rtol ${relative}`}, which says nothing about the parity profile`,
    };
  return shareOf(passed, cases);
}

const describeFailure = ({ shape, reason }: CaseResult) => `${formatShape(shape!)}${reason ? ` (${reason})` : ''}`;

function shareOf(passed: CaseResult[], cases: CaseResult[]): { value: number; detail: string } {
  const failed = cases.find((each) => !passed.includes(each));
  const seeds = Math.min(...cases.map((each) => each.seeds));
  return {
    value: passed.length / cases.length,
    detail: `${passed.length} of ${cases.length} cases, ${seeds} seed${seeds === 1 ? '' : 's'} each${failed ? `; first failing ${describeFailure(failed)}` : ''}`,
  };
}

/** Why a benchmark may not be judged; undefined when it may. */
function unusable(result: BenchmarkResult | undefined): string | undefined {
  if (!result?.latency) return 'the canonical shape was not benchmarked cold';
  if (result.simulated) return EMULATOR_TIMES;
  if (result.stopReason === StopReason.TIMED_OUT)
    return 'sampling ran into its time limit before the interval of the median was narrow enough';
  if (!result.valid) return result.invalidReason || 'the measurement is not valid';
  return undefined;
}

/** Something about the isolated samples on the canonical shape. */
function benchmark(valueOf: (result: BenchmarkResult) => MetricAnswer): GateMetric {
  return {
    phase: 'benchmark',
    measure({ variant: { benchmarks }, cases }) {
      if (benchmarks.length === 0) return { notMeasured: 'the kernel was not benchmarked' };
      const result = benchmarks.find(
        ({ shape, mode }) =>
          mode === TimingMode.COLD && cases.sets.canonical.some((canonical) => shape && sameShape(shape, canonical)),
      );
      // On the emulator no shape would do: say that, rather than which shape is missing.
      const reason = !result && benchmarks.every(({ simulated }) => simulated) ? EMULATOR_TIMES : unusable(result);
      return reason === undefined ? withConditions(result!, valueOf(result!)) : { notMeasured: reason };
    },
  };
}

/** Says on what the value stands: "2x8x512x64 cold". */
function withConditions({ shape }: BenchmarkResult, answer: MetricAnswer): MetricAnswer {
  if (!('value' in answer)) return answer;
  return { ...answer, detail: [`${formatShape(shape!)} cold`, answer.detail].filter(Boolean).join('; ') };
}

const sdpaBackends = ({ sdpa }: BenchmarkResult) =>
  sdpa.filter(({ name }) => name === 'sdpa' || name.startsWith('sdpa/'));

/** Against the fastest SDPA backend the speedup is the least. */
function leastSpeedup(result: BenchmarkResult) {
  return sdpaBackends(result).reduce<BenchmarkResult['sdpa'][number] | undefined>(
    (least, each) => (!least || each.speedup < least.speedup ? each : least),
    undefined,
  );
}

/** The shapes compared, then as many more of the canonical and parity sets. */
function moreShapes({ sets: { canonical, parity } }: Cases, compared: readonly Shape[], more: number): Shape[] {
  const others = [...canonical, ...parity].filter(
    (shape, index, all) =>
      all.findIndex((each) => sameShape(each, shape)) === index && !compared.some((each) => sameShape(each, shape)),
  );
  return [...compared, ...others.slice(0, more)];
}

function shapesFasterThanSdpa({ variant: { benchmarks }, cases }: GateContext, { target }: Gate): MetricAnswer {
  const cold = benchmarks.filter(({ mode }) => mode === TimingMode.COLD);
  if (cold.length === 0) return { notMeasured: 'the kernel was not benchmarked' };
  if (cold.every(({ simulated }) => simulated)) return { notMeasured: EMULATOR_TIMES };
  const usable = cold.filter((result) => unusable(result) === undefined);
  if (usable.length === 0) return { notMeasured: unusable(cold[0])! };
  const compared = usable.filter((result) => sdpaBackends(result).length > 0);
  if (compared.length === 0) return { notMeasured: usable[0]!.sdpaMissing || 'no SDPA sdpa was measured' };
  const faster = compared.filter((result) => sdpaBackends(result).every(({ speedupLow }) => speedupLow >= 1.1));
  // Too few shapes were looked at to tell.
  if (faster.length < target && compared.length < target) {
    const more = moreShapes(
      cases,
      compared.map(({ shape }) => shape!),
      target - compared.length,
    );
    return {
      notMeasured: `compared on ${compared.length} shape${compared.length === 1 ? '' : 's'}, and the gate wants ${target}: run with ${more.map((shape) => `--shape ${formatShape(shape)}`).join(' ')}`,
    };
  }
  return {
    value: faster.length,
    detail: `of ${compared.length} shapes compared${faster.length > 0 ? `: ${faster.map(({ shape }) => formatShape(shape!)).join(', ')}` : ''}`,
  };
}

function profile(name: string): GateMetric {
  return {
    phase: 'profile',
    measure({ variant: { profile: result } }) {
      if (!result) return { notMeasured: 'the kernel was not profiled' };
      const metric = result.metrics.find((each) => each.name === name);
      if (metric && Number.isFinite(metric.value))
        return { value: metric.value, detail: metric.source, source: metric.source };
      return { notMeasured: result.reason || `the profiler gave no ${name}` };
    },
  };
}

/**
 * What the interleaved comparison of the job says, the smaller of time and cycles on each shape: the least of the
 * shapes' ratios (no shape may be slower), the greatest of their
 * lower ends (one shape must be faster). `otherwise` where the request named no champion.
 */
function interleavedElse(
  which: 'least' | 'greatest',
  valueOf: (ratio: RatioInterval) => number,
  otherwise: GateMetric,
): GateMetric {
  return {
    phase: 'history',
    measure(context, gate) {
      const { comparison } = context.variant;
      if (!comparison) return otherwise.measure(context, gate);
      const source = `interleaved with ${comparison.champion?.label ?? 'the champion'} in this job`;
      if (comparison.verdict === ComparisonVerdict.NOT_JUDGED)
        return { notMeasured: comparison.reason.replace(/^not judged: /, ''), source };
      const values = comparison.shapes.flatMap((each) =>
        [each.time, each.cycles].flatMap((ratio) =>
          ratio ? [{ value: valueOf(ratio), shape: each.shape!, reason: each.reason }] : [],
        ),
      );
      const ofShape = [...Map.groupBy(values, ({ shape }) => formatShape(shape)).values()].map((all) =>
        all.reduce((a, b) => (b.value < a.value ? b : a)),
      );
      const chosen = ofShape.reduce((a, b) => ((which === 'least' ? b.value < a.value : b.value > a.value) ? b : a));
      return { value: chosen.value, detail: `${formatShape(chosen.shape)}: ${chosen.reason}`, source };
    },
  };
}

type Median = { p50Us: number; p50LowUs: number; p50HighUs: number };

const STORED_RESULTS = "this runner's stored results, hot";

/**
 * The worst shape of those that an accepted version was measured on, back to back as in the leaderboard: its spread is
 * the smaller one.
 */
function history(speedup: (best: Median, own: Median) => number): GateMetric {
  return {
    phase: 'history',
    measure({ variant: { benchmarks }, history: stored, kernelId }) {
      if (benchmarks.length === 0) return { notMeasured: 'the kernel was not benchmarked' };
      if (benchmarks.every(({ simulated }) => simulated)) return { notMeasured: EMULATOR_TIMES };
      const hot = benchmarks.filter((result) => result.mode === TimingMode.HOT && result.shape);
      const usable = hot.filter((result) => unusable(result) === undefined);
      if (usable.length === 0)
        return { notMeasured: hot.length === 0 ? 'no shape was benchmarked hot' : unusable(hot[0])! };
      const compared = usable.flatMap((result) => {
        const best = stored?.bestAccepted(result.shape!);
        return best ? [{ best, shape: result.shape!, value: speedup(best.latency, result.latency!) }] : [];
      });
      const [first, ...rest] = compared;
      if (!first)
        return {
          notMeasured: `no accepted version of ${kernelId} on this device and shape yet, by this measuring protocol`,
        };
      const worst = rest.reduce((a, b) => (b.value < a.value ? b : a), first);
      return {
        value: worst.value,
        detail: `${formatShape(worst.shape)} against ${worst.best.label} of ${worst.best.job}, p50 ${worst.best.latency.p50Us.toFixed(2)} us`,
        source: STORED_RESULTS,
      };
    },
  };
}
