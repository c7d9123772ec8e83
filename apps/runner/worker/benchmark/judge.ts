import {
  DTYPE_BYTES,
  bytesOfTensor,
  toleranceOfOutput,
  type LaunchPlan,
  type ProblemCase,
} from '@flashcore/shared/kernels';
import { median } from '@flashcore/shared/statistics';
import type { CudaDriver } from '../driver/cuda-driver.ts';
import type { LoadedCandidate } from '../driver/loaded-candidate.ts';
import type { Reference } from '../driver/reference.ts';
import { matricesOf, outputsOf, type OutputExtent } from '../driver/tensor-bits.ts';
import type { Candidate, InputRule } from '../messages/launchable.ts';
import type { Trial } from '../messages/measuring.ts';
import { isMadeOfHeads, poolFor, slotsFor } from '../messages/pool-size.ts';
import type { JudgementRules } from '../messages/verifying.ts';
import { NORMAL } from '../verify/inputs.ts';
import { EXPLAINED_BY_ROUNDING, roundingLimitOf, roundsLogits } from '../verify/judgement.ts';
import { drawHeads, fullInput, type DrawnHeads } from './drawn-heads.ts';
import { drawSets, drawTrial, writeDrawn, type DrawnSets } from './drawn-sets.ts';
import { HeadPool } from './head-pool.ts';
import { InputSlots } from './input-slots.ts';
import { JudgeKernels } from './judge-kernels.ts';
import { type LaunchInputs, PoolMemory } from './pool-memory.ts';
import { type CheckedTensor, LaunchPool } from './launch-pool.ts';
import { OutputLedger } from './output-ledger.ts';
import { HotSampler } from './samplers.ts';
import { SETTLE_WINDOW, hotLaunches } from './sampling.ts';
import { TimedBuild } from './timed-build.ts';

interface JudgeParts {
  driver: CudaDriver;
  reference: Reference;
  drawnAhead: DrawnAhead;
  /** judge.cu, compiled. */
  judgeImage: string | undefined;
}

interface Judged extends JudgementRules {
  /** All builds have the same shape and get the same inputs. */
  builds: readonly Candidate[];
  /** Seed of the heads or sets from which the inputs are made. */
  seed: string;
  trials: readonly Trial[];
}

const ORDERS = 4;

/** The heads or sets from which the inputs of all launches are made: the usual ones, then those of each trial. */
type Drawn = { heads: readonly [DrawnHeads, ...DrawnHeads[]] } | { sets: readonly [DrawnSets, ...DrawnSets[]] };

type Drawing = Pick<Judged, 'seed' | 'trials' | 'ownReference'> & { reference: Reference };

/** The inputs of the coming benchmark, drawn while the device does something else. */
export class DrawnAhead {
  #seed = '';
  #drawn: Drawn | undefined;

  async draw(timed: LaunchPlan, drawing: Drawing): Promise<void> {
    this.#drawn = await drawAll(timed, drawing);
    this.#seed = drawing.seed;
  }

  /** Returns the inputs drawn from this seed and forgets them; undefined if they were not drawn. */
  take(seed: string): Drawn | undefined {
    const drawn = this.#seed === seed ? this.#drawn : undefined;
    this.clear();
    return drawn;
  }

  clear(): void {
    this.#drawn = undefined;
  }
}

/** Makes the inputs of timed launches and judges their outputs, for the builds of one request. */
export class Judge {
  readonly kernels: JudgeKernels;
  readonly #driver: CudaDriver;
  readonly #builds: readonly Candidate[];
  readonly #toleranceOf: (output: OutputExtent) => Judged['tolerance'];
  readonly #kind: ProblemCase;
  readonly #drawn: Drawn;
  readonly #roundingLimitsOf: (plan: LaunchPlan) => number[];
  readonly #explained: number;

  private constructor(
    driver: CudaDriver,
    kernels: JudgeKernels,
    { builds, tolerance, ownTolerances, judgeRounding }: Judged,
    drawn: Drawn,
  ) {
    this.kernels = kernels;
    this.#driver = driver;
    this.#builds = builds;
    this.#toleranceOf = (output) => toleranceOfOutput(output, { tolerance, ownTolerances });
    this.#kind = mostOutputs(builds);
    this.#drawn = drawn;
    this.#explained = judgeRounding ? EXPLAINED_BY_ROUNDING : 0;
    const yardsticks = 'heads' in drawn ? drawn.heads.map((each) => each.yardstick) : drawn.sets.map(() => undefined);
    this.#roundingLimitsOf = (plan) =>
      yardsticks.map((yardstick, trial) =>
        // In trials, a kernel that rounds logits is not judged by rounding. Its limit needs the yardstick, which was
        // measured on the first pair of the usual heads and not on the trial's pairs.
        judgeRounding && (trial === 0 || !roundsLogits(plan)) ? roundingLimitOf(yardstick, plan) : Infinity,
      );
  }

  /** Draws the heads or sets from which inputs are made, with their right answers, unless that was done ahead. */
  static async open({ driver, reference, drawnAhead, judgeImage }: JudgeParts, judged: Judged): Promise<Judge> {
    if (judgeImage === undefined)
      throw new Error('no judge kernels were compiled for the device: nothing can be timed');
    const drawn = drawnAhead.take(judged.seed) ?? (await drawAll(mostOutputs(judged.builds), { ...judged, reference }));
    return new Judge(driver, new JudgeKernels(driver, judgeImage), judged, drawn);
  }

  /** Number of trials. use() takes 0 for the usual drawn values, or a trial's number from 1 on. */
  get trials(): number {
    return ('heads' in this.#drawn ? this.#drawn.heads : this.#drawn.sets).length - 1;
  }

  /**
   * Allocates buffers for `launches` launches per graph, or for fewer if memory or the L2 is too small. Replays
   * alternate among `orders` orders of these buffers; on the emulator there is one.
   */
  pool(launches: number, orders = ORDERS): Pool {
    const { dtype, tensors } = this.#kind;
    const outputs = outputsOf(this.#kind);
    const outputBytes = outputs.reduce((bytes, output) => bytes + bytesOfTensor(output), 0);
    const workspaces = this.#builds.map(({ plan }) => plan.workspace.reduce((sum, { bytes }) => sum + bytes, 0));
    const ownBytes = outputBytes + Math.max(...workspaces);
    const memory = new PoolMemory(this.#driver);
    const parts = { memory, timed: this.#kind };
    let sized: { launches: number; inputs: LaunchInputs };
    if ('heads' in this.#drawn) {
      const { heads, rows, columns } = matricesOf(outputs[0]);
      const size = poolFor({ launches, heads, headBytes: rows * columns * DTYPE_BYTES[dtype], ownBytes });
      const pool = { ...parts, drawn: this.#drawn.heads, heads: size.heads };
      sized = { launches: size.launches, inputs: new HeadPool(this.#driver, this.kernels, pool) };
    } else {
      const { sets } = this.#drawn;
      const inputBytes = tensors
        .filter(({ direction }) => direction === 'in')
        .reduce((bytes, tensor) => bytes + bytesOfTensor(tensor), 0);
      const apart = this.#kind.symmetries.length > 0 ? launches : Math.min(launches, sets[0].sets.length);
      const slots = slotsFor({ launches: apart, inputBytes, ownBytes });
      sized = {
        launches: slots,
        inputs: new InputSlots(this.#driver, this.kernels, { ...parts, drawn: sets, slots }),
      };
    }
    const pool = new LaunchPool(this.#driver, this.kernels, {
      memory,
      ...sized,
      outputs: outputs.map((output) => ({ name: output.name, bytes: bytesOfTensor(output) })),
      arrangements: this.#driver.facts.simulated ? 1 : orders,
    });
    return {
      launches: sized.launches,
      build: (loaded, ledger) =>
        new TimedBuild(this.#driver, { loaded, pool, ledger, outputs: this.#checked(loaded.candidate.plan) }),
      free: () => pool.free(),
    };
  }

  #checked(plan: LaunchPlan): CheckedTensor[] {
    return outputsOf(plan).map((output) => ({
      output,
      tolerance: this.#toleranceOf(output),
      explained: this.#explained,
      roundingLimits: this.#roundingLimitsOf(plan),
    }));
  }

  /** Number of launches of a build that take about two milliseconds. */
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

  /** Writes one input of the case and its right outputs to a file, for rivals. */
  writeDrawn(path: string): void {
    writeDrawn(
      path,
      this.#kind,
      'heads' in this.#drawn ? fullInput(this.#kind, this.#drawn.heads[0]) : this.#drawn.sets[0],
    );
  }

  close(): void {
    this.kernels.close();
  }
}

async function drawAll(timed: LaunchPlan, drawing: Drawing): Promise<Drawn> {
  if (isMadeOfHeads(timed)) return { heads: drawAllHeads(timed, drawing) };
  const { seed, trials, reference, ownReference: own } = drawing;
  const sets: [DrawnSets, ...DrawnSets[]] = [await drawSets(timed, { seed, reference, own })];
  for (const [index, trial] of trials.entries())
    sets.push(await drawTrial(timed, trial, { seed: `${seed}${index.toString(16)}`, reference, own }));
  return { sets };
}

/** Draws the usual heads, and those of trials, from seeds derived from the first. */
function drawAllHeads(timed: LaunchPlan, { seed, trials, reference }: Drawing): [DrawnHeads, ...DrawnHeads[]] {
  const heads = (rules: readonly InputRule[], suffix: string): DrawnHeads =>
    drawHeads(timed, { seed: `${seed}${suffix}`, rules, reference });
  return [heads([NORMAL], ''), ...trials.map(({ rules }, trial) => heads(rules, trial.toString(16)))];
}

/** Returns the plan with the most tensors, because a build may lack optional outputs that another has. */
const mostOutputs = (builds: readonly Candidate[]): LaunchPlan =>
  builds.map(({ plan }) => plan).toSorted((a, b) => b.tensors.length - a.tensors.length)[0]!;

/** Buffers for a graph's launches, on which builds can be timed. */
export interface Pool {
  launches: number;
  build(loaded: LoadedCandidate, ledger: OutputLedger): TimedBuild;
  free(): void;
}
