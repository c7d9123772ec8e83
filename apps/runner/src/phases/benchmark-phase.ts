import { create } from '@bufbuild/protobuf';
import {
  Phase,
  StopReason,
  BenchmarkResultSchema,
  FlashcoreError,
  type BenchmarkResult,
  type Device,
  type Finding,
  type Shape,
  TIMING_MODES,
  ArtifactKind,
  type Sha256,
} from '@flashcore/shared/contract';
import {
  arithmeticPeak,
  bytesOfTensor,
  caseFlops,
  checkShape,
  findDataSheet,
  formatShape,
  planLaunches,
  problemCase,
  sameShape,
  valuesOf,
  type LaunchPlan,
  type Work,
} from '@flashcore/shared/kernels';
import { describe, histogram } from '@flashcore/shared/statistics';
import { formatCount } from '@flashcore/shared/text';
import type { DeviceImage } from '../../worker/messages/launchable.ts';
import type { LatencyReport, TimingModeName } from '../../worker/messages/measuring.ts';
import { describeOutcome, reasonOfFailure } from '../workers/device-worker.ts';
import type { WorkerOutcome } from '../workers/worker-process.ts';
import { drawSeed } from '../spec/benchmark-protocol.ts';
import { uniqueShapes } from '../spec/choose-shapes.ts';
import { candidateFor, judgementRules } from './candidate.ts';
import { drawnShapes } from './coming-verification.ts';
import { findingOf } from '../findings/fault-findings.ts';
import { LiveSamples } from './live-samples.ts';
import { RivalTurns, type SdpaTurns } from './rival-turns.ts';
import { ratesOf, withRates } from './sdpa-alone.ts';
import {
  emitConditions,
  emitFindings,
  emitLog,
  emitWarning,
  startPhase,
  type VariantServices,
} from './job-services.ts';
import { type BenchmarkSpec } from '../spec/job-spec.ts';
import { leastTime } from '../findings/least-time.ts';
import { invalidReasons, timingFindings } from '../findings/timing-findings.ts';
import type { TimedInputs } from './job-found.ts';
import type { VariantPhase } from './phase.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import { shuffled, trialsOn } from './trials.ts';

interface Benchmarking {
  results: BenchmarkResult[];
  findings: Finding[];
  /** Number of checked launches. */
  launches: number;
}

/** Times the candidate, along with SDPA if the device can run it. */
export const benchmarkPhase: VariantPhase = {
  phase: Phase.BENCHMARK,
  wants: ({ spec }, { build }) => spec.benchmark !== undefined && build?.image !== undefined,
  async run(services, { job, result, build, judging, timing }) {
    const findings = await runBenchmark(services, {
      spec: services.spec.benchmark!,
      image: build!.image!,
      tensorCores: build!.result.tensorCores,
      ahead: timing,
      onSeeds: (seeds) => job.seeds.push(...seeds),
      onResults: (results) => {
        result.benchmarks.push(...results);
        judging?.look();
      },
    });
    result.findings.unshift(...findings);
    return findings.length > 0 ? 'the kernel failed while it was timed' : undefined;
  },
};

const LEGACY_WARNING =
  'mean of launches in a plain loop, for comparison with old notes: not a latency, because launches overlap, the pace of the host is in it, and nothing is dropped';

const timedInputs = (services: VariantServices, shape: Shape): TimedInputs => ({
  shape,
  seed: drawSeed(),
  trials: trialsOn(services, shape),
});

/**
 * Draws the inputs of the first timed shape while the device is busy with something else. Returns undefined if nothing
 * is timed or the inputs could not be drawn. In the second case the benchmark draws them itself, and reports the
 * reason.
 */
export async function drawAhead(services: VariantServices): Promise<TimedInputs | undefined> {
  const { spec, job, runtime, resolved } = services;
  const [shape] = spec.benchmark?.shapes ?? [];
  if (!spec.benchmark || !shape) return undefined;
  const inputs = timedInputs(services, shape);
  const { ownReference } = await judgementRules(services, spec.benchmark);
  const timed = planLaunches(spec.kernel.manifest, resolved, shape);
  const { seed, trials } = inputs;
  const outcome = await runtime.request({ type: 'draw', timed, seed, trials, ownReference }, { signal: job.signal });
  return outcome.status === 'done' ? inputs : undefined;
}

interface BenchmarkOptions {
  spec: BenchmarkSpec;
  /** The module that the device loads. */
  image: DeviceImage;
  /** Whether the code uses tensor cores; undefined if that is not known. */
  tensorCores: boolean | undefined;
  /** Inputs that were drawn ahead for the first shape; undefined if there are none. */
  ahead: TimedInputs | undefined;
  /** Called with the seeds of the inputs, before each shape. */
  onSeeds: (seeds: readonly string[]) => void;
  /** Called with the results of each shape. */
  onResults: (results: readonly BenchmarkResult[]) => void;
}

/** Measures every shape in every mode, streaming samples as they come. Returns the findings of the timed launches. */
async function runBenchmark(
  services: VariantServices,
  { onResults, ...options }: BenchmarkOptions,
): Promise<Finding[]> {
  const { job } = services;
  const { spec } = options;
  startPhase(services, Phase.BENCHMARK, spec.shapes.length * spec.modes.length);
  if (spec.protocol.shortened !== undefined) emitWarning(job, spec.protocol.shortened);
  const findings: Finding[] = [];
  const timed: TimedShape[] = [];
  for (const shape of spec.shapes) {
    const measured = await measureShape(services, { ...options, shape });
    onResults(measured.results);
    const busy = busyHost(measured.results);
    if (busy !== undefined) emitWarning(job, busy);
    findings.push(...measured.findings);
    // If a kernel faults on one shape, it does not run on the next.
    if (measured.results.length === 0) break;
    timed.push({ shape, results: measured.results, launches: measured.launches });
  }
  if (findings.length === 0) findings.push(...(await checkFurtherLaunches(services, { ...options, timed })));
  emitFindings(services, findings);
  return findings;
}

/** Number of checked launches that misses an error in one of 10,000 launches with probability 0.9999^46,050 = 0.01. */
const CHECKED_LAUNCHES = 46_050;
/**
 * Limit on the estimated time of all further launches, if one shape got them all. Slower shapes get none if there are
 * faster ones.
 */
const FURTHER_US = 300_000;
/** Number of shapes among which the further launches are divided. */
const FURTHER_SHAPES = 3;
/** Launches per graph, more than in a timed graph: checking a sample costs as much as a hundred small launches. */
const FURTHER_LAUNCHES = 500;
/** Time limit for all further launches, in case they take longer than estimated. */
const FURTHER_SECONDS = 5;
/** The least time of a launch, however small its shape. */
const LEAST_LAUNCH_US = 3;
/**
 * The least time in which each SM runs one of a launch's CTAs, however little work they have. One of flashcore_v6 takes
 * 0.8 us on an H200 for a shape of 65,535 heads and one row (lab/results/h200-judge-2026-12-01).
 */
const LEAST_WAVE_US = 1;
/**
 * How long the judge takes to fill and check the outputs of a launch. With 5.6 MB of outputs, a launch of flashcore_v6
 * and its check take 86 us on an H200, of which the launch takes about 12.
 */
const JUDGE_US_PER_MB = 13;

interface TimedShape {
  shape: Shape;
  results: readonly BenchmarkResult[];
  /** Number of checked launches. */
  launches: number;
}

/**
 * If the result may be accepted, launches on a GPU until CHECKED_LAUNCHES are checked, without keeping times. The
 * emulator, whose launches take milliseconds, checks only those that it times. Returns the findings if an output is
 * wrong.
 */
async function checkFurtherLaunches(
  services: VariantServices,
  { timed, ...options }: Omit<BenchmarkOptions, 'onResults'> & { timed: readonly TimedShape[] },
): Promise<Finding[]> {
  const { job, spec } = services;
  let checked = timed.reduce((sum, each) => sum + each.launches, 0);
  if (spec.device.simulated || !spec.verify?.drawn || timed.length === 0 || checked >= CHECKED_LAUNCHES) return [];
  const shapes = furtherShapes(services, timed, CHECKED_LAUNCHES - checked);
  const started = performance.now();
  for (const [index, shape] of shapes.entries()) {
    const seconds = FURTHER_SECONDS - (performance.now() - started) / 1000;
    const launches = Math.ceil((CHECKED_LAUNCHES - checked) / (shapes.length - index));
    if (launches <= 0 || seconds <= 0) break;
    const outcome = await furtherLaunches(services, { ...options, shape, launches, seconds });
    const reports = answerOf(outcome, shape);
    if (!reports) return [findingOf(outcome, shape)!];
    checked += launchesOf(reports);
    const findings = timingFindings(reports, [], { shape, hasOwnReference: hasOwnReference(services) });
    if (findings.length > 0) return findings;
  }
  const found = `an error in one of 10,000 launches is found with probability ${(1 - 0.9999 ** checked).toFixed(3)}`;
  const text = `${formatCount(checked)} launches checked, the last of them on ${shapes.map(formatShape).join(', ')}: ${found}`;
  if (checked >= CHECKED_LAUNCHES) emitLog(job, 'runner', text);
  else emitWarning(job, `${text}; more took longer than ${FURTHER_SECONDS} s`);
  return [];
}

/**
 * Chooses the shapes of further launches at random, because a kernel could be wrong only on shapes that it knows to get
 * few launches. They are some of the timed, verified and drawn shapes whose launches are estimated to fit into
 * FURTHER_US; if none fits, the quickest shape.
 */
function furtherShapes(services: VariantServices, timed: readonly TimedShape[], launches: number): Shape[] {
  const { spec, resolved } = services;
  const { manifest } = spec.kernel;
  const usOf = ({ results }: TimedShape): number => Math.min(...results.map(({ latency }) => latency!.p50Us));
  const flopsOf = (shape: Shape): number => caseFlops(manifest.problem, shape);
  const [quickest] = timed.toSorted((a, b) => usOf(a) - usOf(b)) as [TimedShape];
  const workOf = (shape: Shape) => {
    const plan = planLaunches(manifest, resolved, shape);
    const ctas = ctasOf(plan);
    const waves = ctas / spec.device.multiprocessors;
    const flops = flopsOf(shape);
    // A grid that fills a part of the SMs takes as long as one that fills them all with CTAs of the same work.
    return { waves, flops, chain: (Math.ceil(waves) * flops) / ctas, outputBytes: outputBytesOf(plan) };
  };
  const known = { us: usOf(quickest), ...workOf(quickest.shape) };
  const estimatedUs = (shape: Shape): number => {
    const { waves, flops, chain, outputBytes } = workOf(shape);
    const usByWork = known.us * Math.max(flops / known.flops, chain / known.chain);
    return Math.max(LEAST_LAUNCH_US, LEAST_WAVE_US * waves, usByWork) + JUDGE_US_PER_MB * (outputBytes / 1e6);
  };
  const verify = spec.verify!;
  const taken = uniqueShapes([
    ...timed.map(({ shape }) => shape),
    ...verify.shapes.filter((shape) => checkShape(manifest, resolved, shape) === undefined),
    ...drawnShapes(services, verify),
  ]);
  const fitting = taken.filter((shape) => launches * estimatedUs(shape) <= FURTHER_US);
  return fitting.length > 0
    ? shuffled(fitting).slice(0, FURTHER_SHAPES)
    : taken.toSorted((a, b) => flopsOf(a) - flopsOf(b)).slice(0, 1);
}

const outputBytesOf = ({ tensors }: LaunchPlan): number =>
  tensors.reduce((sum, tensor) => sum + (tensor.direction === 'out' ? bytesOfTensor(tensor) : 0), 0);

const ctasOf = ({ launches }: LaunchPlan): number => launches.reduce((sum, { grid: [x, y, z] }) => sum + x * y * z, 0);

interface FurtherLaunches extends Pick<BenchmarkOptions, 'spec' | 'image' | 'onSeeds'> {
  shape: Shape;
  /** At least this many launches are checked, unless `seconds` pass first. */
  launches: number;
  seconds: number;
}

async function furtherLaunches(
  services: VariantServices,
  { spec, image, onSeeds, shape, launches, seconds }: FurtherLaunches,
): Promise<WorkerOutcome<LatencyReport[]>> {
  const { job, runtime } = services;
  const seed = drawSeed();
  onSeeds([seed]);
  return runtime.request(
    {
      type: 'benchmark',
      candidate: candidateFor(services, { image, shape }),
      modes: ['hot'],
      seed,
      trials: [],
      ...(await judgementRules(services, spec)),
      protocol: {
        ...spec.protocol.sampling,
        maxSamples: launches,
        maxSeconds: seconds,
        launchesPerSample: FURTHER_LAUNCHES,
        checkedLaunches: launches,
      },
      turns: false,
      legacyLaunches: 0,
      ownProcesses: runtime.ownProcesses,
    },
    { signal: job.signal },
  );
}

const launchesOf = (reports: readonly LatencyReport[]): number =>
  reports.reduce((sum, { outputCheck }) => sum + outputCheck.launches, 0);

// Above 1, because the emulator's own threads fill the CPUs and the average includes the build before it.
const BUSY_LOAD = 1.5;

/** Why the emulator's times mean little; undefined if the host had enough CPUs. */
export function busyHost(results: readonly Pick<BenchmarkResult, 'conditions'>[]): string | undefined {
  const { hostLoad = 0, hostCpus = 0 } = results.at(-1)?.conditions ?? {};
  return hostLoad > BUSY_LOAD * hostCpus
    ? `the host is busy: load ${hostLoad.toFixed(1)} on ${hostCpus} CPUs; the emulator's times vary with it`
    : undefined;
}

async function measureShape(
  services: VariantServices,
  options: Omit<BenchmarkOptions, 'onResults'> & { shape: Shape },
): Promise<Benchmarking> {
  const { job, runtime } = services;
  const { spec, image, shape, ahead } = options;
  const { seed, trials } = ahead && sameShape(ahead.shape, shape) ? ahead : timedInputs(services, shape);
  options.onSeeds([seed]);
  const live = new LiveSamples({ job, device: services.spec.device, shape, protocol: spec.protocol.sampling });
  const candidate = candidateFor(services, { image, shape });
  const rules = await judgementRules(services, spec);
  using beside = await RivalTurns.open(services, { spec, shape, live, plan: candidate.plan, rules });
  const outcome = await runtime.request(
    {
      type: 'benchmark',
      candidate,
      modes: spec.modes,
      seed,
      trials,
      ...rules,
      protocol: spec.protocol.sampling,
      turns: beside.takesTurns,
      drawnFile: beside.drawnFile,
      legacyLaunches: spec.legacyLaunches,
      ownProcesses: runtime.ownProcesses,
    },
    {
      signal: job.signal,
      onNotice: (notice) => {
        emitConditions(services, notice);
        if (notice.type === 'samples') live.add({ ...notice, subject: 'candidate' });
      },
      ...(beside.takesTurns && { onTurn: (mode) => beside.turn(mode) }),
    },
  );
  live.flush();
  const reports = answerOf(outcome, shape);
  if (!reports) return { results: [], findings: [findingOf(outcome, shape)!], launches: 0 };
  const results = reports.map((report) =>
    benchmarkResult(services, {
      report,
      shape,
      tensorCores: options.tensorCores,
      shortened: spec.protocol.shortened,
      sdpa: beside.sdpa,
      legacyLaunches: spec.legacyLaunches,
    }),
  );
  for (const result of results) job.emit({ case: 'benchmarkResult', value: result });
  return {
    results,
    findings: timingFindings(reports, results, { shape, hasOwnReference: hasOwnReference(services) }),
    launches: launchesOf(reports),
  };
}

/** The reports; undefined if the kernel faulted. Errors: those of reasonOfFailure() if the worker could not measure. */
function answerOf(outcome: WorkerOutcome<LatencyReport[]>, shape: Shape): LatencyReport[] | undefined {
  if (outcome.status === 'failed')
    throw new FlashcoreError(
      reasonOfFailure(outcome),
      { shape: formatShape(shape) },
      `The worker could not measure ${formatShape(shape)}: ${describeOutcome(outcome)}`,
    );
  return outcome.status === 'done' ? outcome.value : undefined;
}

/** Whose peak the kernel's share of the roofline is of; undefined for a device without a data sheet. */
function unitsOf({ name }: Device, kernel: Pick<Work, 'dtype' | 'tensorCores'>): string | undefined {
  const sheet = findDataSheet(name);
  return sheet && arithmeticPeak(sheet, kernel).units;
}

const hasOwnReference = ({ spec: { kernel } }: VariantServices): boolean => kernel.manifest.problem.operation === 'own';

interface ReportedShape {
  report: LatencyReport;
  shape: Shape;
  tensorCores: boolean | undefined;
  shortened: string | undefined;
  sdpa: SdpaTurns;
  legacyLaunches: number;
}

function benchmarkResult(
  { spec: { device, kernel }, resolved: { dtype }, artifacts }: VariantServices,
  options: ReportedShape,
): BenchmarkResult {
  const { report, shape, sdpa, tensorCores } = options;
  const kept = report.samplesUs.filter((us) => us > 0);
  const latency = describe(kept, { dropped: report.samplesUs.length - kept.length });
  const timed = problemCase(kernel.manifest.problem, valuesOf(shape), dtype);
  const { flops, bytes } = timed;
  const rates = ratesOf(device, { seconds: latency.p50Us / 1e6, flops, bytes, dtype, tensorCores });
  const least = leastTime(device, timed, { mode: report.mode });
  const invalid = invalidReasons(report, {
    device,
    timed: { latency, ...least },
    shortened: options.shortened,
  });
  const { outputCheck, conditions } = report;
  return create(BenchmarkResultSchema, {
    shape,
    mode: TIMING_MODES[report.mode],
    simulated: device.simulated,
    latency,
    stopReason: StopReason[report.stopReason],
    flops,
    bytes,
    ...rates,
    ...(rates.rooflinePercent !== undefined && { rooflineUnits: unitsOf(device, { dtype, tensorCores }) }),
    ...least,
    sdpa: 'turn' in sdpa ? withRates(sdpa.results(report.mode, kept), device, { flops, bytes, dtype }) : [],
    ...(report.legacyLoopUs !== undefined && {
      legacyLoop: { meanUs: report.legacyLoopUs, launches: options.legacyLaunches, warning: LEGACY_WARNING },
    }),
    sdpaMissing: 'turn' in sdpa ? sdpa.missing(report.mode) : sdpa.missing,
    missingRivals: 'turn' in sdpa ? sdpa.missingRivals : [],
    histogram: histogram(kept),
    samples: storeRaw(artifacts, report.samplesUs, { name: 'samples', shape, mode: report.mode }),
    ...(report.clocksMhz.some((mhz) => mhz > 0) && {
      smClocks: storeRaw(artifacts, report.clocksMhz, { name: 'sm-clocks', shape, mode: report.mode }),
    }),
    clockSource: report.clockSource,
    slowedSamples: report.slowed,
    throttledSamples: report.throttled,
    conditions,
    outputCheck: outputCheck.detail,
    valid: invalid.length === 0,
    ...(invalid.length > 0 && { invalidReason: invalid.join('; ') }),
    launchesPerSample: report.launchesPerSample,
    eventOverheadUs: report.eventOverheadUs,
  });
}

export interface StoredSamples {
  sha256: Sha256;
  kind: ArtifactKind;
  fileName: string;
  sizeBytes: bigint;
}

interface SamplesOf {
  name: string;
  shape: Shape;
  mode: TimingModeName;
}

/**
 * Keeps raw samples, or their clocks, as little-endian float32. `name` is "samples", "sm-clocks" …, the beginning of
 * the file's name.
 */
export function storeRaw(
  artifacts: ArtifactStore,
  values: Float32Array,
  { name, shape, mode }: SamplesOf,
): StoredSamples {
  const bytes = Buffer.alloc(values.length * 4);
  values.forEach((value, index) => bytes.writeFloatLE(value, index * 4));
  const clocks = name.endsWith('sm-clocks');
  return {
    sha256: artifacts.put(bytes),
    kind: clocks ? ArtifactKind.SM_CLOCKS : ArtifactKind.SAMPLES,
    fileName: `${name}.${formatShape(shape)}.${mode}.f32`,
    sizeBytes: BigInt(bytes.length),
  };
}
