import { randomInt } from 'node:crypto';
import { medianInterval } from '@flashcore/shared';
import type { CudaDriver } from '../driver/cuda-driver.ts';
import type { Reference } from '../driver/reference.ts';
import type { BenchmarkRequest, LatencyReport, SamplingProtocol, TimingModeName } from '../messages.ts';
import type { Reporter } from '../reporter.ts';
import { Audit } from './audit.ts';
import type { Conditions } from './conditions.ts';
import { InputRotation, type InputSet } from './input-rotation.ts';
import { OutputChecks } from './output-checks.ts';
import { ColdSampler, EventPair, HotSampler, type Sampler } from './samplers.ts';

export interface BenchmarkTools {
  driver: CudaDriver;
  reference: Reference;
  conditions: Conditions;
  reporter: Reporter;
}

/** Samples go to the parent about ten times a second. */
const BATCH_MS = 100;
/** In turns with a baseline: short, so that both see the same state of the device; a hot sample takes milliseconds. */
const TURN_BATCH_MS: Record<TimingModeName, number> = { cold: 20, hot: 40 };
/** No result rests on fewer turns than this: one alone would not be interleaved. */
const MIN_TURNS = 5;
const TURN_LIMIT_MS = 120_000;
/** A batch whose SM clock is below this share of the median of those before it is dropped. */
const CLOCK_SHARE = 0.98;
const PREPARE_LIMIT_MS = 120_000;
const CONDITIONS_EVERY_MS = 1_000;
/** A graph of launches should take about this long: much longer than the event pair costs. */
const HOT_SAMPLE_US = 2_000;
const MAX_HOT_LAUNCHES = 200;
/** Samples compared with those before them to see whether the device has settled. */
const SETTLE_WINDOW = 8;
const SETTLED_RELATIVE = 0.01;
const EVENT_PAIRS = 21;

/** Latency of a candidate in each mode asked for. Errors: CudaError when the kernel faults. */
export async function benchmark(tools: BenchmarkTools, request: BenchmarkRequest): Promise<LatencyReport[]> {
  await tools.reporter.step('preparing the benchmark', PREPARE_LIMIT_MS);
  const rotation = new InputRotation(tools.driver, tools.reference, request);
  const reports: LatencyReport[] = [];
  for (const mode of request.modes) reports.push(await new Measurement(tools, request, rotation, mode).run());
  rotation.close();
  return reports;
}

/** One mode: warm-up, samples until the stopping rule, checks of the output in between and at the end. */
class Measurement {
  readonly #tools: BenchmarkTools;
  readonly #protocol: SamplingProtocol;
  readonly #rotation: InputRotation;
  readonly #mode: TimingModeName;
  readonly #sampleLimitMs: number;
  /** In order; 0 for one that was dropped. */
  readonly #samples: number[] = [];
  readonly #clocksMhz: number[] = [];
  readonly #ownProcesses: number[];
  readonly #turns: boolean;
  #turnsTaken = 0;
  #conditionsReadAt = 0;

  constructor(tools: BenchmarkTools, request: BenchmarkRequest, rotation: InputRotation, mode: TimingModeName) {
    this.#tools = tools;
    this.#protocol = request.protocol;
    this.#rotation = rotation;
    this.#mode = mode;
    this.#sampleLimitMs = request.candidate.launchLimitMs;
    this.#turns = request.turns;
    this.#ownProcesses = request.ownProcesses;
  }

  async run(): Promise<LatencyReport> {
    const { driver, conditions } = this.#tools;
    const eventOverheadUs = this.#eventOverheadUs();
    const sampler = this.#mode === 'cold' ? new ColdSampler(driver, this.#rotation) : new HotSampler(driver, this.#rotation, await this.#hotLaunches());
    const typicalUs = await this.#warmUp(sampler);
    const checks = new OutputChecks(this.#rotation, this.#tools.reporter, Math.min(this.#protocol.minSamples, Math.floor((this.#protocol.maxSeconds * 1e6) / typicalUs)));
    // A sample takes a replay that is not timed, and one that is. Before or after: a kernel that counts its launches must not know.
    const audit = this.#mode === 'hot' ? Audit.for(driver, this.#rotation, typicalUs / (2 * sampler.launchesPerSample)) : undefined;
    const auditFirst = randomInt(2) === 0;
    if (audit && auditFirst) await checks.audit(audit);
    const { stopReason, last } = await this.#sampleUntilDone(sampler, checks);
    await checks.last(last);
    if (audit && !auditFirst) await checks.audit(audit);
    sampler.close();
    return {
      mode: this.#mode,
      samplesUs: Float32Array.from(this.#samples),
      stopReason,
      launchesPerSample: sampler.launchesPerSample,
      eventOverheadUs,
      ...checks.report(),
      conditions: { ...conditions.read(this.#ownProcesses), ...(this.#clocksMhz.length > 0 && { smClockMhz: median(this.#clocksMhz) }) },
    };
  }

  /** Median of an event pair with nothing between, microseconds. */
  #eventOverheadUs(): number {
    const pair = new EventPair(this.#tools.driver);
    const samples = Array.from({ length: EVENT_PAIRS }, () => pair.time(() => undefined));
    pair.close();
    return median(samples);
  }

  /** Launches a graph: as asked for, or as many as take about two milliseconds. */
  async #hotLaunches(): Promise<number> {
    if (this.#protocol.launchesPerSample > 0) return this.#protocol.launchesPerSample;
    await this.#announce();
    const single = new HotSampler(this.#tools.driver, this.#rotation, 1);
    const us = median(Array.from({ length: SETTLE_WINDOW }, () => single.sample().us));
    single.close();
    return Math.max(1, Math.min(MAX_HOT_LAUNCHES, Math.round(HOT_SAMPLE_US / us)));
  }

  /** Runs until the median of recent samples settles or the time is up; microseconds that a sample then takes, all in. */
  async #warmUp(sampler: Sampler): Promise<number> {
    const started = performance.now();
    const samples: number[] = [];
    while (!settled(samples)) {
      const batch = await this.#batch(sampler, () => samples.length > 0 && performance.now() - started > this.#protocol.warmUpMaxSeconds * 1000);
      samples.push(...batch);
      await this.#tools.reporter.notice({ type: 'samples', mode: this.#mode, warmUp: true, samplesUs: Float32Array.from(batch) });
      if (performance.now() - started > this.#protocol.warmUpMaxSeconds * 1000) break;
    }
    return ((performance.now() - started) * 1000) / samples.length;
  }

  async #sampleUntilDone(sampler: Sampler, checks: OutputChecks): Promise<{ stopReason: LatencyReport['stopReason']; last: InputSet }> {
    const limitMs = this.#protocol.maxSeconds * 1000;
    let started = performance.now();
    let checkAgainAt = this.#protocol.minSamples;
    let last: InputSet | undefined;
    for (;;) {
      const batch: number[] = [];
      const batchStarted = performance.now();
      await this.#announce();
      do {
        const secret = checks.wants(this.#samples.length) && batch.length === 0;
        if (secret) checks.prepare();
        const { us, set } = sampler.sample();
        last = set;
        batch.push(us);
        this.#samples.push(us);
        if (secret) {
          started += await checks.secret(set);
          await this.#announce();
        }
        // The next sample, if it is the secret one, begins a batch of its own.
      } while (performance.now() - batchStarted < (this.#turns ? TURN_BATCH_MS[this.#mode] : BATCH_MS) && this.#samples.length < this.#protocol.maxSamples && !checks.wants(this.#samples.length));
      if (this.#slowedDown()) this.#samples.fill(0, this.#samples.length - batch.length);
      await this.#tools.reporter.notice({ type: 'samples', mode: this.#mode, warmUp: false, samplesUs: Float32Array.from(this.#samples.slice(-batch.length)) });
      await this.#reportConditions();
      if (this.#turns) {
        const turn = await this.#turn(sampler);
        started += turn.ms;
        last = turn.last;
      }
      if (this.#samples.length >= checkAgainAt && (!this.#turns || this.#turnsTaken >= MIN_TURNS)) {
        checkAgainAt = Math.ceil(this.#samples.length * 1.25);
        if (this.#converged()) return { stopReason: 'converged', last };
      }
      if (this.#samples.length >= this.#protocol.maxSamples) return { stopReason: 'noise-floor', last };
      if (performance.now() - started > limitMs) return { stopReason: 'timed-out', last };
    }
  }

  /** Whether the device was slower during the last batch than before it, by its clock or by what NVML says. */
  #slowedDown(): boolean {
    const now = this.#tools.conditions.clock();
    if (!now) return false;
    const before = this.#clocksMhz.length > 0 ? median(this.#clocksMhz) : now.smClockMhz;
    this.#clocksMhz.push(now.smClockMhz);
    return now.throttled || now.smClockMhz < CLOCK_SHARE * before;
  }

  /**
   * Leaves the device to others; milliseconds that it took, which are not sampling time. The first sample afterwards pays for the change of process, and is not kept; but
   * its output is the last.
   */
  async #turn(sampler: Sampler): Promise<{ ms: number; last: InputSet }> {
    const started = performance.now();
    await this.#tools.reporter.step('waiting for its turn', TURN_LIMIT_MS);
    await this.#tools.reporter.turn(this.#mode);
    this.#turnsTaken += 1;
    await this.#announce();
    const { set } = sampler.sample();
    return { ms: performance.now() - started, last: set };
  }

  #converged(): boolean {
    const kept = this.#samples.filter((us) => us > 0);
    if (kept.length < this.#protocol.minSamples) return false;
    const { low, high } = medianInterval(kept);
    return (high - low) / 2 <= this.#protocol.targetRelativeHalfWidth * median(kept);
  }

  async #batch(sampler: Sampler, done: () => boolean): Promise<number[]> {
    const started = performance.now();
    const batch: number[] = [];
    await this.#announce();
    do batch.push(sampler.sample().us);
    while (performance.now() - started < BATCH_MS && !done());
    return batch;
  }

  #announce(): Promise<void> {
    return this.#tools.reporter.step('timed launches', BATCH_MS + this.#sampleLimitMs);
  }

  async #reportConditions(): Promise<void> {
    if (performance.now() - this.#conditionsReadAt < CONDITIONS_EVERY_MS) return;
    this.#conditionsReadAt = performance.now();
    await this.#tools.reporter.notice({ type: 'conditions', conditions: this.#tools.conditions.read(this.#ownProcesses) });
  }
}

function settled(samples: readonly number[]): boolean {
  if (samples.length < 2 * SETTLE_WINDOW) return false;
  const recent = median(samples.slice(-SETTLE_WINDOW));
  const before = median(samples.slice(-2 * SETTLE_WINDOW, -SETTLE_WINDOW));
  return Math.abs(recent - before) <= SETTLED_RELATIVE * before;
}

function median(samples: readonly number[]): number {
  const sorted = Float64Array.from(samples).sort();
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
