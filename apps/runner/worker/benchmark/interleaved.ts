import { blockRatioInterval, median } from '@flashcore/shared/statistics';
import type {
  CompareRequest,
  ComparisonReport,
  PairedSamples,
  SamplingProtocol,
  TimingModeName,
} from '../messages/measuring.ts';
import { LoadedCandidate } from '../driver/loaded-candidate.ts';
import { limitReason, openStamps, type BenchmarkTools } from './latency.ts';
import type { ClockStamps } from './clock-stamps.ts';
import { Judge } from './judge.ts';
import { OutputLedger } from './output-ledger.ts';
import { openSampler, type Sampler } from './samplers.ts';
import {
  BATCH_MS,
  Looks,
  MIN_FOR_INTERVAL,
  PREPARE_LIMIT_MS,
  SlowDown,
  type BatchClocks,
  settled,
  narrowEnough,
} from './sampling.ts';
import type { TimedBuild } from './timed-build.ts';
import { Trials } from './trial-samples.ts';

/** The build (0 or 1) of each sample in a block. A drift of the device affects both builds alike. */
const BLOCK = [0, 1, 1, 0] as const;
/** Each place in a block has its own clock watch, because the launch just before a sample also affects its clock. */
const PLACES = [0, 1, 2, 3] as const;
const PER_BLOCK = 2;
/** For the stopping rule; the reported result uses more resamples. */
const RESAMPLES = 1_000;

/**
 * Times two builds on one shape in each mode asked for: first the champion against a second, separately loaded copy of
 * itself, then the champion against the candidate. All use the same buffers: with separate tensors a champion differed
 * from itself by 1 %, with shared ones by 0.1 % (docs/measuring.md). Errors: CudaError when one of the kernels faults.
 */
export async function compare(tools: BenchmarkTools, request: CompareRequest): Promise<ComparisonReport[]> {
  await tools.reporter.step('preparing the comparison', PREPARE_LIMIT_MS);
  const { champion, candidate } = request;
  const judge = await Judge.open(tools, { ...request, builds: [champion, candidate] });
  const builds = {
    champion: new LoadedCandidate(tools.driver, champion),
    second: new LoadedCandidate(tools.driver, champion),
    candidate: new LoadedCandidate(tools.driver, candidate),
  };
  const stamps = openStamps(tools);
  const reports: ComparisonReport[] = [];
  for (const mode of request.modes)
    reports.push(await new Comparison(tools, { request, judge, builds, mode, stamps }).run());
  stamps?.close();
  for (const each of [builds.candidate, builds.second, builds.champion]) each.unload();
  judge.close();
  return reports;
}

type Builds = Record<'champion' | 'second' | 'candidate', LoadedCandidate>;

interface Side {
  build: TimedBuild;
  sampler: Sampler;
  close(): void;
}

interface ComparisonParts {
  request: CompareRequest;
  judge: Judge;
  builds: Builds;
  mode: TimingModeName;
  stamps: ClockStamps | undefined;
}

/** Comparison in one timing mode. */
class Comparison {
  readonly #tools: BenchmarkTools;
  readonly #request: CompareRequest;
  readonly #judge: Judge;
  readonly #builds: Builds;
  readonly #mode: TimingModeName;
  readonly #stamps: ClockStamps | undefined;
  readonly #slowDown: SlowDown;
  /** Whether one build pins lines in L2, which the other build then can't use. */
  readonly #keepsL2: boolean;

  constructor(tools: BenchmarkTools, parts: ComparisonParts) {
    this.#tools = tools;
    this.#request = parts.request;
    this.#judge = parts.judge;
    this.#builds = parts.builds;
    this.#mode = parts.mode;
    this.#stamps = parts.stamps;
    this.#slowDown = new SlowDown(tools.driver, {
      stamps: parts.stamps,
      conditions: tools.conditions,
      mode: parts.mode,
    });
    this.#keepsL2 = [parts.request.champion, parts.request.candidate].some(({ plan }) =>
      plan.launches.some(({ l2Persist }) => l2Persist.length > 0),
    );
  }

  async run(): Promise<ComparisonReport> {
    const ledgers = {
      champion: new OutputLedger(this.#request.champion.plan),
      candidate: new OutputLedger(this.#request.candidate.plan),
    };
    const pool = this.#judge.pool(this.#mode === 'cold' ? 1 : await this.#launchesPerSample(ledgers.champion));
    const side = (loaded: LoadedCandidate, ledger: OutputLedger): Side => {
      const build = pool.build(loaded, ledger);
      const parts = { build, judge: this.#judge.kernels, stamps: this.#stamps };
      const sampler = openSampler(this.#mode, this.#tools.driver, parts);
      return {
        build,
        sampler,
        close() {
          sampler.close();
          build.close();
        },
      };
    };
    const [champion, second, candidate] = [
      side(this.#builds.champion, ledgers.champion),
      side(this.#builds.second, ledgers.champion),
      side(this.#builds.candidate, ledgers.candidate),
    ];
    const trials = new Trials(this.#tools.driver, { judge: this.#judge, build: candidate.build, mode: this.#mode });
    await trials.all(() => this.#announce());
    const self = await this.#series([champion, second]);
    const pairs = await this.#series([champion, candidate], trials);
    trials.close();
    const checks = { championCheck: ledgers.champion.report(), candidateCheck: ledgers.candidate.report() };
    for (const each of [champion, second, candidate]) each.close();
    pool.free();
    // The emulator's clock is not a device clock.
    const clocks = this.#tools.driver.facts.simulated
      ? []
      : [...pairs.championMhz, ...pairs.candidateMhz].filter((mhz) => mhz > 0);
    const conditions = {
      ...this.#tools.conditions.read(this.#request.ownProcesses),
      ...(clocks.length > 0 && { smClockMhz: median(clocks) }),
    };
    return {
      mode: this.#mode,
      launchesPerSample: pool.launches,
      self,
      pairs,
      clockSource: this.#slowDown.source,
      ...checks,
      conditions,
    };
  }

  /**
   * Launches per sample, from the champion's time. Both builds use this number, so that a graph's fixed cost is the
   * same for both.
   */
  async #launchesPerSample(ledger: OutputLedger): Promise<number> {
    if (this.#request.protocol.launchesPerSample > 0) return this.#request.protocol.launchesPerSample;
    await this.#announce();
    return this.#judge.hotLaunches(this.#builds.champion, ledger);
  }

  /**
   * Warms up, then runs blocks until the interval of the ratio is narrow enough. The champion's check against itself
   * has no trials.
   */
  async #series(sides: readonly [Side, Side], trials?: Trials): Promise<PairedSamples> {
    const { protocol } = this.#request;
    const series = new Series(protocol);
    this.#slowDown.startSeries();
    await this.#warmUp(sides);
    const started = performance.now();
    for (let taken = 0; ;) {
      const from = series.length;
      const batchStarted = performance.now();
      await this.#announce();
      do {
        trials?.perhaps();
        series.push(this.#block(sides));
        taken += 1;
      } while (performance.now() - batchStarted < BATCH_MS && taken * PER_BLOCK < protocol.maxSamples);
      series.takeClocks(this.#slowDown.batch((series.length - from) * BLOCK.length, PLACES));
      await this.#tools.reporter.notice({ type: 'pairs', mode: this.#mode, selfCheck: !trials, ...series.since(from) });
      const stopReason = series.stopReason(performance.now() - started);
      if (stopReason) return series.result(stopReason);
    }
  }

  /** Runs both builds until their medians settle. */
  async #warmUp(sides: readonly [Side, Side]): Promise<void> {
    const samples: [number[], number[]] = [[], []];
    const limitMs = this.#request.protocol.warmUpMaxSeconds * 1000;
    const started = performance.now();
    do {
      await this.#announce();
      const block = this.#block(sides);
      BLOCK.forEach((build, place) => samples[build].push(block[place]!));
      this.#slowDown.batch(BLOCK.length);
    } while (!samples.every(settled) && performance.now() - started < limitMs);
  }

  #block(sides: readonly [Side, Side]): number[] {
    return BLOCK.map((build) => {
      if (this.#keepsL2) this.#tools.driver.resetPersistingL2();
      return sides[build].sampler.sample();
    });
  }

  #announce(): Promise<void> {
    const { champion, candidate } = this.#request;
    return this.#tools.reporter.step(
      'timed launches of champion and candidate',
      BATCH_MS + (BLOCK.length + 1) * Math.max(champion.launchLimitMs, candidate.launchLimitMs),
    );
  }
}

/** The samples of a series as they arrive. Dropped samples are stored as negative values. */
class Series {
  readonly #protocol: SamplingProtocol;
  readonly #us: [number[], number[]] = [[], []];
  readonly #mhz: [number[], number[]] = [[], []];
  readonly #looks: Looks;

  constructor(protocol: SamplingProtocol) {
    this.#protocol = protocol;
    this.#looks = new Looks(protocol.minSamples);
  }

  /** Number of blocks, including dropped ones. */
  get length(): number {
    return this.#us[0].length / PER_BLOCK;
  }

  push(block: readonly number[]): void {
    BLOCK.forEach((build, place) => this.#us[build].push(block[place]!));
  }

  /**
   * Takes the clocks of the last samples. Drops the whole block of a slow sample, so both builds lose the same number.
   */
  takeClocks({ clocksMhz, fell, throttled }: BatchClocks): void {
    const blocks = fell.length / BLOCK.length;
    const first = this.length - blocks;
    for (let block = 0; block < blocks; ++block) {
      BLOCK.forEach((build, place) => this.#mhz[build].push(clocksMhz[block * BLOCK.length + place]!));
      if (!throttled && !fell.slice(block * BLOCK.length, (block + 1) * BLOCK.length).includes(true)) continue;
      for (const us of this.#us)
        for (let place = 0; place < PER_BLOCK; ++place) us[(first + block) * PER_BLOCK + place]! *= -1;
    }
  }

  /** Samples from this block on; dropped samples are 0. */
  since(block: number): { championUs: Float32Array; candidateUs: Float32Array } {
    const [championUs, candidateUs] = this.#us.map((all) =>
      Float32Array.from(all.slice(block * PER_BLOCK), (us) => Math.max(0, us)),
    ) as [Float32Array, Float32Array];
    return { championUs, candidateUs };
  }

  /** Undefined if sampling should continue. */
  stopReason(elapsedMs: number): PairedSamples['stopReason'] | undefined {
    const taken = this.#us[0].length;
    if (this.#looks.due(taken) && this.#converged()) return 'CONVERGED';
    if (taken >= this.#protocol.maxSamples) return limitReason(this.#protocol);
    return elapsedMs > this.#protocol.maxSeconds * 1000 ? 'TIMED_OUT' : undefined;
  }

  #converged(): boolean {
    const [champion, candidate] = this.#us.map((all) => all.filter((us) => us > 0)) as [number[], number[]];
    if (champion.length < Math.max(this.#protocol.minSamples, MIN_FOR_INTERVAL * PER_BLOCK)) return false;
    const interval = blockRatioInterval(champion, candidate, { perBlock: PER_BLOCK, resamples: RESAMPLES });
    return narrowEnough(interval, { of: interval.ratio, halfWidth: this.#protocol.targetRelativeHalfWidth });
  }

  result(stopReason: PairedSamples['stopReason']): PairedSamples {
    const [championUs, candidateUs] = this.#us.map((all) => Float32Array.from(all)) as [Float32Array, Float32Array];
    const [championMhz, candidateMhz] = this.#mhz.map((all) => Float32Array.from(all)) as [Float32Array, Float32Array];
    return { championUs, candidateUs, championMhz, candidateMhz, stopReason };
  }
}
