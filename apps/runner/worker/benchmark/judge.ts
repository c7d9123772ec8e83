import { DTYPE_BYTES, elementsOfTensor, type ProblemCase } from '@flashcore/shared/kernels';
import { median } from '@flashcore/shared/statistics';
import type { CudaDriver } from '../driver/cuda-driver.ts';
import type { LoadedCandidate } from '../driver/loaded-candidate.ts';
import type { Reference } from '../driver/reference.ts';
import { matricesOf, outputOf } from '../driver/tensor-bits.ts';
import type { Candidate } from '../messages/launchable.ts';
import { poolFor } from '../messages/pool-size.ts';
import { drawHeads, type DrawnHeads } from './drawn-heads.ts';
import { JudgeKernels } from './judge-kernels.ts';
import { LaunchPool } from './launch-pool.ts';
import { OutputLedger } from './output-ledger.ts';
import { HotSampler } from './samplers.ts';
import { SETTLE_WINDOW, hotLaunches } from './sampling.ts';
import { TimedBuild } from './timed-build.ts';

interface JudgeParts {
  driver: CudaDriver;
  reference: Reference;
  /** judge.cu, compiled. */
  judgeImage: string | undefined;
}

interface Judged {
  /** All of the same shape, on the same inputs. */
  builds: readonly Candidate[];
  /** Of the drawn heads. */
  seed: string;
  tolerance: { absolute: number; relative: number };
}

/** Makes the inputs of timed launches, and judges their outputs, for the builds of one request. */
export class Judge {
  readonly kernels: JudgeKernels;
  readonly #driver: CudaDriver;
  readonly #builds: readonly Candidate[];
  readonly #tolerance: Judged['tolerance'];
  readonly #kind: ProblemCase;
  readonly #drawn: DrawnHeads;

  constructor({ driver, reference, judgeImage }: JudgeParts, { builds, seed, tolerance }: Judged) {
    if (judgeImage === undefined)
      throw new Error('no judge kernels were compiled for the device: nothing can be timed');
    this.kernels = new JudgeKernels(driver, judgeImage);
    this.#driver = driver;
    this.#builds = builds;
    this.#tolerance = tolerance;
    this.#kind = builds[0]!.plan;
    this.#drawn = drawHeads(this.#kind, seed, reference);
  }

  /** Buffers for so many launches a graph, or for fewer where memory or the L2 end. */
  pool(launches: number): Pool {
    const { dtype } = this.#kind;
    const output = outputOf(this.#kind);
    const { heads, rows, columns } = matricesOf(output);
    const outputBytes = elementsOfTensor(output) * DTYPE_BYTES[dtype];
    const workspaces = this.#builds.map(({ plan }) => plan.workspace.reduce((sum, { bytes }) => sum + bytes, 0));
    const size = poolFor({
      launches,
      heads,
      headBytes: rows * columns * DTYPE_BYTES[dtype],
      ownBytes: outputBytes + Math.max(...workspaces),
    });
    const pool = new LaunchPool(this.#driver, this.kernels, { kind: this.#kind, drawn: this.#drawn, size });
    return {
      launches: size.launches,
      build: (loaded, ledger) => new TimedBuild(this.#driver, { loaded, pool, ledger, tolerance: this.#tolerance }),
      free: () => pool.free(),
    };
  }

  /** As many launches of a build as take about two milliseconds. */
  hotLaunches(loaded: LoadedCandidate, ledger: OutputLedger): number {
    const pool = this.pool(1);
    const build = pool.build(loaded, ledger);
    const sampler = new HotSampler(this.#driver, { build, judge: this.kernels });
    const us = median(Array.from({ length: SETTLE_WINDOW }, () => sampler.sample()));
    sampler.close();
    build.close();
    pool.free();
    return hotLaunches(us);
  }

  close(): void {
    this.kernels.close();
  }
}

/** Buffers of a graph's launches, on which builds can be timed. */
export interface Pool {
  launches: number;
  build(loaded: LoadedCandidate, ledger: OutputLedger): TimedBuild;
  free(): void;
}
