import { medianInterval, median } from '@flashcore/shared/statistics';
import type { CudaDriver } from '../driver/cuda-driver.ts';
import { LoadedCandidate } from '../driver/loaded-candidate.ts';
import type { Reference } from '../driver/reference.ts';
import type { BenchmarkRequest, LatencyReport, SamplingProtocol, TimingModeName } from '../messages/measuring.ts';
import type { Reporter } from '../reporter.ts';
import { ClockStamps } from './clock-stamps.ts';
import type { Conditions } from './conditions.ts';
import { Judge, type DrawnAhead } from './judge.ts';
import { OutputLedger } from './output-ledger.ts';
import { EventPair, openSampler, type Sampler } from './samplers.ts';
import { Trials } from './trial-samples.ts';
import {
  BATCH_MS,
  CONDITIONS_EVERY_MS,
  Looks,
  MIN_FOR_INTERVAL,
  PREPARE_LIMIT_MS,
  SlowDown,
  judgeSlow,
  narrowEnough,
  settled,
} from './sampling.ts';

export interface BenchmarkTools {
  driver: CudaDriver;
  reference: Reference;
  drawnAhead: DrawnAhead;
  conditions: Conditions;
  reporter: Reporter;
  /** clock-stamp.cu, compiled; undefined if it was not compiled for the device. */
  clockStampImage: string | undefined;
  /** judge.cu, compiled. */
  judgeImage: string | undefined;
}

/**
 * Batch length in turns with SDPA. Batches are short so that both sides see the same state of the device; one hot
 * sample takes milliseconds.
 */
const TURN_BATCH_MS: Record<TimingModeName, number> = { cold: 20, hot: 40 };
/** Minimum number of turns behind a result, because a single turn would not be interleaved. */
const MIN_TURNS = 5;
const TURN_LIMIT_MS = 120_000;
const EVENT_PAIRS = 21;
/** Orders of the buffers of launches whose times are not kept. Preparing a launch takes longer than checking it. */
const CHECKED_ORDERS = 2;

/** Latency of a candidate in each mode asked for. Errors: CudaError when the kernel faults. */
export async function benchmark(tools: BenchmarkTools, request: BenchmarkRequest): Promise<LatencyReport[]> {
  await tools.reporter.step('preparing the benchmark', PREPARE_LIMIT_MS);
  const judge = await Judge.open(tools, { ...request, builds: [request.candidate] });
  const [first] = request.modes;
  if (request.drawnFile !== undefined && first) {
    judge.writeDrawn(request.drawnFile);
    await tools.reporter.step('waiting for its rivals', TURN_LIMIT_MS);
    await tools.reporter.turn(first);
  }
  const loaded = new LoadedCandidate(tools.driver, request.candidate);
  const stamps = openStamps(tools);
  const reports: LatencyReport[] = [];
  for (const mode of request.modes)
    reports.push(await new Measurement(tools, { request, judge, loaded, mode, stamps }).run());
  const last = reports.at(-1);
  if (last && request.legacyLaunches > 0)
    last.legacyLoopUs = await legacyLoop(tools, { judge, loaded, launches: request.legacyLaunches });
  stamps?.close();
  loaded.unload();
  judge.close();
  return reports;
}

interface LegacyLoop {
  judge: Judge;
  loaded: LoadedCandidate;
  launches: number;
}

/**
 * Mean time of launches in a plain loop on one input, with one event pair around the loop, as torch.utils.benchmark
 * measures. It exists for comparison with old notes and is not a latency: launches overlap, and the time includes the
 * host's pace and the writing of initial values.
 */
async function legacyLoop(
  { driver, reporter }: BenchmarkTools,
  { judge, loaded, launches }: LegacyLoop,
): Promise<number> {
  await reporter.step('the legacy loop', TURN_LIMIT_MS);
  const pool = judge.pool(1);
  const build = pool.build(loaded, new OutputLedger(loaded.candidate.plan));
  build.renew();
  const events = new EventPair(driver);
  const us = events.time(() => {
    for (let launch = 0; launch < launches; ++launch) {
      build.initialize();
      build.enqueue();
    }
  });
  events.close();
  build.close();
  pool.free();
  return us / launches;
}

export function openStamps({ driver, clockStampImage }: BenchmarkTools): ClockStamps | undefined {
  return clockStampImage ? new ClockStamps(driver, clockStampImage) : undefined;
}

interface SubjectParts {
  request: BenchmarkRequest;
  judge: Judge;
  loaded: LoadedCandidate;
  mode: TimingModeName;
  stamps: ClockStamps | undefined;
}

/** One timing mode: warm-up, then samples until the stopping rule applies. The outputs of all samples are checked. */
class Measurement {
  readonly #tools: BenchmarkTools;
  readonly #protocol: SamplingProtocol;
  readonly #judge: Judge;
  readonly #loaded: LoadedCandidate;
  readonly #ledger: OutputLedger;
  readonly #mode: TimingModeName;
  readonly #sampleLimitMs: number;
  /** In order; 0 for a dropped sample. */
  readonly #samples: number[] = [];
  /** MHz of each sample; 0 if unknown. */
  readonly #clocksMhz: number[] = [];
  readonly #stamps: ClockStamps | undefined;
  readonly #slowDown: SlowDown;
  readonly #ownProcesses: number[];
  readonly #turns: boolean;
  #turnsTaken = 0;
  #slowed = 0;
  #throttled = 0;
  #conditionsReadAt = 0;

  constructor(tools: BenchmarkTools, { request, judge, loaded, mode, stamps }: SubjectParts) {
    this.#tools = tools;
    this.#stamps = stamps;
    this.#slowDown = new SlowDown(tools.driver, { stamps, conditions: tools.conditions, mode });
    this.#protocol = request.protocol;
    this.#judge = judge;
    this.#loaded = loaded;
    this.#ledger = new OutputLedger(request.candidate.plan);
    this.#mode = mode;
    this.#sampleLimitMs = request.candidate.launchLimitMs;
    this.#turns = request.turns;
    this.#ownProcesses = request.ownProcesses;
  }

  async run(): Promise<LatencyReport> {
    const { driver, conditions } = this.#tools;
    const eventOverheadUs = this.#eventOverheadUs();
    const keepsTimes = this.#protocol.checkedLaunches === undefined;
    const launches = this.#mode === 'cold' ? 1 : await this.#hotLaunches();
    const pool = this.#judge.pool(launches, keepsTimes ? undefined : CHECKED_ORDERS);
    const build = pool.build(this.#loaded, this.#ledger);
    const sampler = openSampler(this.#mode, driver, { build: build, judge: this.#judge.kernels, stamps: this.#stamps });
    const trials = new Trials(driver, { judge: this.#judge, build, mode: this.#mode });
    await trials.all(() => this.#announce());
    if (keepsTimes) await this.#warmUp(sampler);
    const stopReason = await this.#sampleUntilDone(sampler, trials);
    trials.close();
    sampler.close();
    build.close();
    pool.free();
    return {
      mode: this.#mode,
      samplesUs: Float32Array.from(this.#samples),
      clocksMhz: Float32Array.from(this.#clocksMhz),
      clockSource: this.#slowDown.source,
      slowed: this.#slowed,
      throttled: this.#throttled,
      stopReason,
      launchesPerSample: sampler.launchesPerSample,
      eventOverheadUs,
      outputCheck: this.#ledger.report(),
      conditions: {
        ...conditions.read(this.#ownProcesses),
        ...(!driver.facts.simulated && medianClock(this.#samples, this.#clocksMhz)),
      },
    };
  }

  /** Median time of an event pair with nothing between the events, in microseconds. */
  #eventOverheadUs(): number {
    const pair = new EventPair(this.#tools.driver);
    const samples = Array.from({ length: EVENT_PAIRS }, () => pair.time(() => undefined));
    pair.close();
    return median(samples);
  }

  /** Launches per graph: the number asked for, or as many as take about two milliseconds. */
  async #hotLaunches(): Promise<number> {
    if (this.#protocol.launchesPerSample > 0) return this.#protocol.launchesPerSample;
    await this.#announce();
    return this.#judge.hotLaunches(this.#loaded, this.#ledger);
  }

  /** Runs until the median of recent samples settles or the time is up. */
  async #warmUp(sampler: Sampler): Promise<void> {
    const started = performance.now();
    const samples: number[] = [];
    while (!settled(samples)) {
      const batch = await this.#batch(
        sampler,
        () => samples.length > 0 && performance.now() - started > this.#protocol.warmUpMaxSeconds * 1000,
      );
      samples.push(...batch);
      this.#slowDown.batch(batch.length); // Establishes the clock before the first kept samples.
      await this.#tools.reporter.notice({
        type: 'samples',
        mode: this.#mode,
        warmUp: true,
        samplesUs: Float32Array.from(batch),
      });
      if (performance.now() - started > this.#protocol.warmUpMaxSeconds * 1000) break;
    }
  }

  async #sampleUntilDone(sampler: Sampler, trials: Trials): Promise<LatencyReport['stopReason']> {
    const limitMs = this.#protocol.maxSeconds * 1000;
    let started = performance.now();
    const looks = new Looks(this.#protocol.minSamples);
    for (;;) {
      const batch: number[] = [];
      const batchStarted = performance.now();
      await this.#announce();
      do {
        trials.perhaps();
        batch.push(sampler.sample());
      } while (
        performance.now() - batchStarted < (this.#turns ? TURN_BATCH_MS[this.#mode] : BATCH_MS) &&
        this.#samples.length + batch.length < this.#protocol.maxSamples
      );
      this.#samples.push(...batch);
      this.#takeClocks(batch.length);
      await this.#tools.reporter.notice({
        type: 'samples',
        mode: this.#mode,
        warmUp: false,
        samplesUs: Float32Array.from(this.#samples.slice(-batch.length)),
      });
      await this.#reportConditions();
      if (this.#turns) started += await this.#turn(sampler);
      const interleaved = !this.#turns || this.#turnsTaken >= MIN_TURNS;
      const { checkedLaunches } = this.#protocol;
      if (checkedLaunches === undefined) {
        if (interleaved && looks.due(this.#samples.length) && this.#converged()) return 'CONVERGED';
      } else if (this.#ledger.launches >= checkedLaunches) return 'CONVERGED';
      if (this.#samples.length >= this.#protocol.maxSamples) return limitReason(this.#protocol);
      if (performance.now() - started > limitMs) return 'TIMED_OUT';
    }
  }

  /** Drops those samples of the last batch in which the device was slow. */
  #takeClocks(count: number): void {
    const clocks = this.#slowDown.batch(count);
    this.#clocksMhz.push(...clocks.clocksMhz);
    const { dropped, slowed, throttled } = judgeSlow(clocks, { turns: this.#turns });
    const first = this.#samples.length - count;
    for (const index of dropped) this.#samples[first + index] = 0;
    this.#slowed += slowed;
    this.#throttled += throttled;
  }

  /**
   * Leaves the device to others. Returns the milliseconds this took, which are not part of the sampling time. The first
   * sample afterwards pays for the change of process and is discarded.
   */
  async #turn(sampler: Sampler): Promise<number> {
    const started = performance.now();
    await this.#tools.reporter.step('waiting for its turn', TURN_LIMIT_MS);
    await this.#tools.reporter.turn(this.#mode);
    this.#turnsTaken += 1;
    await this.#announce();
    sampler.sample();
    this.#stamps?.read();
    return performance.now() - started;
  }

  #converged(): boolean {
    const kept = this.#samples.filter((us) => us > 0);
    if (kept.length < Math.max(this.#protocol.minSamples, MIN_FOR_INTERVAL)) return false;
    return narrowEnough(medianInterval(kept), {
      of: median(kept),
      halfWidth: this.#protocol.targetRelativeHalfWidth,
    });
  }

  async #batch(sampler: Sampler, done: () => boolean): Promise<number[]> {
    const started = performance.now();
    const batch: number[] = [];
    await this.#announce();
    do batch.push(sampler.sample());
    while (performance.now() - started < BATCH_MS && !done());
    return batch;
  }

  #announce(): Promise<void> {
    return this.#tools.reporter.step('timed launches', BATCH_MS + 2 * this.#sampleLimitMs);
  }

  async #reportConditions(): Promise<void> {
    if (performance.now() - this.#conditionsReadAt < CONDITIONS_EVERY_MS) return;
    this.#conditionsReadAt = performance.now();
    await this.#tools.reporter.notice({
      type: 'conditions',
      conditions: this.#tools.conditions.read(this.#ownProcesses),
    });
  }
}

/** Median clock of the kept samples. */
function medianClock(samplesUs: readonly number[], clocksMhz: readonly number[]): { smClockMhz?: number } {
  const known = clocksMhz.filter((mhz, index) => mhz > 0 && samplesUs[index]! > 0);
  return known.length > 0 ? { smClockMhz: median(known) } : {};
}

/**
 * Why sampling ends at the maximum number of samples: the user asked for that number, or the protocol allows no more.
 */
export const limitReason = ({ samplesAsked }: SamplingProtocol): 'SAMPLE_LIMIT' | 'NOISE_FLOOR' =>
  samplesAsked ? 'SAMPLE_LIMIT' : 'NOISE_FLOOR';
