import { randomInt } from 'node:crypto';
import type { CudaDriver } from '../driver/cuda-driver.ts';
import type { TimingModeName } from '../messages/measuring.ts';
import type { Judge } from './judge.ts';
import { openSampler, type Sampler } from './samplers.ts';
import type { TimedBuild } from './timed-build.ts';

/** On average, a trial precedes one of this many samples. */
const TRIAL_ONE_IN = 16;

interface TrialParts {
  judge: Judge;
  build: TimedBuild;
  mode: TimingModeName;
}

/**
 * Samples on the drawn values of trials, whose times are discarded. Otherwise a build could recognize timed launches
 * and compute correct outputs only for N(0, 1) there.
 */
export class Trials {
  readonly #judge: Judge;
  readonly #build: TimedBuild;
  /** Without clock stamps, which would be taken for those of timed samples. */
  readonly #sampler: Sampler | undefined;

  constructor(driver: CudaDriver, { judge, build, mode }: TrialParts) {
    this.#judge = judge;
    this.#build = build;
    this.#sampler = judge.trials === 0 ? undefined : openSampler(mode, driver, { build, judge: judge.kernels });
  }

  /** Takes a sample of each trial. */
  async all(announce: () => Promise<void>): Promise<void> {
    for (let trial = 1; trial <= this.#judge.trials; trial += 1) {
      await announce();
      this.#take(trial);
    }
  }

  /** Takes a sample of some trial now and then: a build that counts launches must not know when trials are over. */
  perhaps(): void {
    if (this.#judge.trials > 0 && randomInt(TRIAL_ONE_IN) === 0) this.#take(1 + randomInt(this.#judge.trials));
  }

  #take(trial: number): void {
    this.#build.use(trial);
    this.#sampler?.sample();
    this.#build.use(0);
  }

  close(): void {
    this.#sampler?.close();
  }
}
