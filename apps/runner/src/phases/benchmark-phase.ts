import { create } from '@bufbuild/protobuf';
import {
  Phase,
  StopReason,
  TimingMode,
  BenchmarkProgressSchema,
  BenchmarkResultSchema,
  FlashcoreError,
  type BenchmarkResult,
  type Device,
  type Finding,
  type SdpaResult,
  type Shape,
} from '@flashcore/shared/contract';
import { attentionBytes, attentionFlops, findDataSheet, formatShape, rooflineSeconds } from '@flashcore/shared/kernels';
import { describe, histogram } from '@flashcore/shared/statistics';
import type {
  LatencyReport,
  SamplingProtocol,
  StopReasonName,
  TimingModeName,
  WorkerNotice,
} from '../../worker/messages.ts';
import type { SdpaShape } from '../sdpa/sdpa-benchmark.ts';
import { describeOutcome } from '../workers/device-worker.ts';
import { INPUT_SETS, drawSeeds } from '../spec/benchmark-protocol.ts';
import { candidateFor } from './candidate.ts';
import { findingOf } from '../findings/fault-findings.ts';
import { expectedSamples } from './expected-samples.ts';
import { emitConditions, emitFindings, emitWarning, startPhase, type VariantServices } from './job-services.ts';
import type { BenchmarkSpec } from '../spec/job-spec.ts';
import { leastTime } from '../findings/least-time.ts';
import { MAX_FRESH_RATIO, invalidReasons, timingFindings } from '../findings/timing-findings.ts';
import type { VariantPhase } from './phase.ts';
import { storeRaw } from './raw-samples.ts';

interface Benchmarking {
  results: BenchmarkResult[];
  findings: Finding[];
}

export const MODES: Record<TimingModeName, TimingMode> = { cold: TimingMode.COLD, hot: TimingMode.HOT };
export const STOP_REASONS: Record<StopReasonName, StopReason> = {
  converged: StopReason.CONVERGED,
  'noise-floor': StopReason.NOISE_FLOOR,
  'timed-out': StopReason.TIMED_OUT,
  'sample-limit': StopReason.SAMPLE_LIMIT,
};
/** Each subject's samples are told about four times a second. */
const TELL_EVERY_MS = 250;

/** Times the candidate, beside SDPA where the device can run it. */
export const benchmarkPhase: VariantPhase = {
  wants: ({ spec }, { build }) => spec.benchmark !== undefined && build?.image !== undefined,
  async run(services, { job, result, build, judging }) {
    const findings = await runBenchmark(services, {
      spec: services.spec.benchmark!,
      image: build!.image!,
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
  'mean of launches in a plain loop, for comparison with old notes: no latency, because launches overlap, the pace of the host is in it, and nothing is dropped';

interface BenchmarkOptions {
  spec: BenchmarkSpec;
  /** What the device loads. */
  image: string;
  /** Told what inputs are drawn by, before each shape. */
  onSeeds: (seeds: readonly string[]) => void;
  /** Told the results of each shape. */
  onResults: (results: readonly BenchmarkResult[]) => void;
}

/**
 * Measures every shape in every mode, streaming samples as they come. Gives what the timed launches tell against the
 * kernel.
 */
async function runBenchmark(
  services: VariantServices,
  { spec, image, onSeeds, onResults }: BenchmarkOptions,
): Promise<Finding[]> {
  const { job } = services;
  startPhase(services, Phase.BENCHMARK, spec.shapes.length * spec.modes.length);
  if (spec.protocol.shortened !== undefined) emitWarning(job, spec.protocol.shortened);
  const findings: Finding[] = [];
  for (const shape of spec.shapes) {
    const measured = await measureShape(services, { spec, image, shape, onSeeds });
    onResults(measured.results);
    findings.push(...measured.findings);
    // A kernel that faults on one shape is not run on the next.
    if (measured.results.length === 0) break;
  }
  emitFindings(services, findings);
  return findings;
}

async function measureShape(
  services: VariantServices,
  options: Omit<BenchmarkOptions, 'onResults'> & { shape: Shape },
): Promise<Benchmarking> {
  const { job, runtime } = services;
  const { spec, image, shape } = options;
  const seeds = drawSeeds(spec.modes.length);
  options.onSeeds([...seeds.seeds, ...seeds.freshSeeds]);
  const live = new LiveSamples(services, shape, spec.protocol.sampling);
  const sdpa = await openSdpa(services, { spec, shape, live });
  const outcome = await runtime.request(
    {
      type: 'benchmark',
      candidate: candidateFor(services, { image, shape }),
      modes: spec.modes,
      ...seeds,
      tolerance: spec.tolerance,
      protocol: spec.protocol.sampling,
      turns: 'turn' in sdpa,
      legacyLaunches: spec.legacyLaunches,
      ownProcesses: runtime.ownProcesses,
      // Whatever else the emulator's host does is in its times: one row of launches is no proof there.
      repeatFreshAbove: services.spec.device.simulated ? MAX_FRESH_RATIO.simulated : Infinity,
    },
    {
      signal: job.signal,
      onNotice: (notice) => live.receive(notice),
      ...('turn' in sdpa && { onTurn: (mode) => sdpa.turn(mode) }),
    },
  );
  live.flush();
  if (outcome.status === 'failed')
    throw new FlashcoreError(
      'INTERNAL',
      { shape: formatShape(shape) },
      `The worker could not measure ${formatShape(shape)}: ${describeOutcome(outcome)}`,
    );
  if (outcome.status !== 'done') return { results: [], findings: [findingOf(outcome, shape)!] };
  const results = outcome.value.map((report) =>
    benchmarkResult(services, {
      report,
      shape,
      shortened: spec.protocol.shortened,
      sdpa,
      legacyLaunches: spec.legacyLaunches,
    }),
  );
  for (const result of results) job.emit({ case: 'benchmarkResult', value: result });
  return { results, findings: timingFindings(outcome.value, results, { shape, device: services.spec.device }) };
}

type SdpaTurns = SdpaShape | { missing: string };

interface SdpaMeasurement {
  spec: BenchmarkSpec;
  shape: Shape;
  live: LiveSamples;
}

async function openSdpa({ job, runtime }: VariantServices, { spec, shape, live }: SdpaMeasurement): Promise<SdpaTurns> {
  const { sdpa, sdpaMissing } = runtime.instruments;
  if (!sdpa) return { missing: sdpaMissing };
  return sdpa.openShape(shape, {
    modes: spec.modes,
    inputSets: INPUT_SETS,
    backends: spec.sdpaBackends,
    signal: job.signal,
    onSamples: (mode, subject, samplesUs) => live.add({ mode, subject, samplesUs, warmUp: false }),
  });
}

/** Samples of one mode and subject so far. */
interface SubjectSamples {
  readonly mode: TimingModeName;
  readonly subject: string;
  readonly startedAt: number;
  readonly all: number[];
  pending: number[];
  toldAt: number;
}

const newSubject = (mode: TimingModeName, subject: string): SubjectSamples => ({
  mode,
  subject,
  startedAt: performance.now(),
  all: [],
  pending: [],
  toldAt: -Infinity,
});

interface ToldSamples {
  mode: TimingModeName;
  subject: string;
  samplesUs: number[];
  warmUp: boolean;
}

interface NewSamples {
  mode: TimingModeName;
  subject: string;
  samplesUs: Iterable<number>;
  warmUp: boolean;
}

/**
 * Samples of the modes as they come, of the candidate and of what is measured in turns with it, with running
 * statistics.
 */
class LiveSamples {
  readonly #services: VariantServices;
  readonly #shape: Shape;
  readonly #subjects = new Map<string, SubjectSamples>();
  readonly #protocol: SamplingProtocol;

  constructor(services: VariantServices, shape: Shape, protocol: SamplingProtocol) {
    this.#services = services;
    this.#shape = shape;
    this.#protocol = protocol;
  }

  receive(notice: WorkerNotice): void {
    emitConditions(this.#services, notice);
    if (notice.type === 'samples') this.add({ ...notice, subject: 'candidate' });
  }

  /** A sample of 0 was dropped. */
  add({ mode, subject, samplesUs, warmUp }: NewSamples): void {
    if (warmUp) return this.#tell({ mode, subject, samplesUs: Array.from(samplesUs), warmUp });
    const key = `${mode} ${subject}`;
    const known = this.#subjects.get(key) ?? newSubject(mode, subject);
    this.#subjects.set(key, known);
    known.pending.push(...samplesUs);
    if (performance.now() - known.toldAt >= TELL_EVERY_MS) this.#tellPending(known);
  }

  /** What was not told yet. */
  flush(): void {
    for (const known of this.#subjects.values()) if (known.pending.length > 0) this.#tellPending(known);
  }

  // The running interval is a bootstrap, and in turns nothing is measured while it is calculated.
  #tellPending(known: SubjectSamples): void {
    known.all.push(...known.pending.filter((us) => us > 0));
    this.#tell({ mode: known.mode, subject: known.subject, samplesUs: known.pending, warmUp: false }, known);
    known.pending = [];
    known.toldAt = performance.now();
  }

  #tell({ mode, subject, samplesUs, warmUp }: ToldSamples, known?: SubjectSamples): void {
    const all = known?.all ?? [];
    const latency = all.length > 0 ? describe(all) : undefined;
    const {
      job,
      spec: { device },
    } = this.#services;
    job.emit({
      case: 'benchmarkProgress',
      value: create(BenchmarkProgressSchema, {
        shape: this.#shape,
        mode: MODES[mode],
        subject,
        samplesUs,
        simulated: device.simulated,
        warmUp,
        ...(latency !== undefined && { latency, histogram: histogram(all) }),
        ...(known !== undefined &&
          latency !== undefined && {
            expectedSamples: expectedSamples(latency, performance.now() - known.startedAt, this.#protocol),
          }),
      }),
    });
  }
}

interface ReportedShape {
  report: LatencyReport;
  shape: Shape;
  shortened: string | undefined;
  sdpa: SdpaTurns;
  legacyLaunches: number;
}

function benchmarkResult({ spec: { device }, artifacts }: VariantServices, options: ReportedShape): BenchmarkResult {
  const { report, shape, sdpa } = options;
  const kept = report.samplesUs.filter((us) => us > 0);
  const latency = describe(kept, { dropped: report.samplesUs.length - kept.length });
  const flops = attentionFlops(shape);
  const bytes = attentionBytes(shape);
  const rates = ratesOf(device, { seconds: latency.p50Us / 1e6, flops, bytes });
  const least = leastTime(device, shape, {
    mode: report.mode,
    inputSets: INPUT_SETS,
    launchesPerSample: report.launchesPerSample,
  });
  const invalid = invalidReasons(report, {
    device,
    timed: { latency, ...least },
    shortened: options.shortened,
  });
  const { outputCheck, conditions } = report;
  return create(BenchmarkResultSchema, {
    shape,
    mode: MODES[report.mode],
    simulated: device.simulated,
    latency,
    stopReason: STOP_REASONS[report.stopReason],
    flops,
    bytes,
    ...rates,
    ...least,
    sdpa: 'turn' in sdpa ? withRates(sdpa.results(report.mode, kept), device, { flops, bytes }) : [],
    ...(report.legacyLoopUs !== undefined && {
      legacyLoop: { meanUs: report.legacyLoopUs, launches: options.legacyLaunches, warning: LEGACY_WARNING },
    }),
    sdpaMissing: 'turn' in sdpa ? sdpa.missing(report.mode) : sdpa.missing,
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

/** SDPA's rates are about the same arithmetic and the same bytes. */
function withRates(
  results: SdpaResult[],
  device: Device,
  { flops, bytes }: { flops: number; bytes: number },
): SdpaResult[] {
  return results.map((result) => ({
    ...result,
    ...ratesOf(device, { seconds: (result.latency?.p50Us ?? 0) / 1e6, flops, bytes }),
  }));
}

interface TimedWork {
  seconds: number;
  flops: number;
  bytes: number;
}

/** Absent on the emulator: rates of its times would be taken for a GPU's. */
function ratesOf(
  device: Device,
  { seconds, flops, bytes }: TimedWork,
): { tflops?: number; gbPerSecond?: number; rooflinePercent?: number } {
  if (device.simulated || seconds <= 0) return {};
  const sheet = findDataSheet(device.name);
  return {
    tflops: flops / seconds / 1e12,
    gbPerSecond: bytes / seconds / 1e9,
    ...(sheet && { rooflinePercent: (100 * rooflineSeconds(flops, bytes, sheet)) / seconds }),
  };
}
