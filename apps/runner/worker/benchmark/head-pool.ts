import { randomInt } from 'node:crypto';
import { DTYPE_BYTES, type ProblemCase } from '@flashcore/shared/kernels';
import type { CudaDriver, DevicePointer } from '../driver/cuda-driver.ts';
import { matricesOf, outputOf } from '../driver/tensor-bits.ts';
import type { DrawnHeads } from './drawn-heads.ts';
import type { Disguise, HeadKind, JudgeKernels, PoolTensor } from './judge-kernels.ts';
import {
  type CheckedOutput,
  type LaunchInputs,
  type NoiseSource,
  type PoolMemory,
  type Regions,
  shuffled,
} from './pool-memory.ts';

const TENSORS = ['Q', 'K', 'V'] as const;

interface HeadPoolParts {
  memory: PoolMemory;
  timed: ProblemCase;
  /** The usual heads, then the heads of each trial. All have the same extents. */
  drawn: readonly [DrawnHeads, ...DrawnHeads[]];
  /** Heads of Q in the pool; K and V have the same number. */
  heads: number;
}

/**
 * The inputs of plain attention: pools of heads of Q, K and V, made from a few drawn heads by the symmetries of
 * attention. Each launch starts at a different place in the pools, so no two launches have a pair of heads in common.
 */
export class HeadPool implements LaunchInputs {
  readonly names = TENSORS;
  readonly noise: NoiseSource;
  readonly guarded: readonly Regions[];
  readonly #driver: CudaDriver;
  readonly #judge: JudgeKernels;
  readonly #drawn: HeadPoolParts['drawn'];
  readonly #kind: HeadKind;
  readonly #spare: number;
  readonly #headsOfLaunch: number;
  readonly #headBytes: bigint;
  /** For each element of `drawn`, the tensors of its heads. */
  readonly #tensors: readonly (readonly PoolTensor[])[];
  readonly #answers: DevicePointer;
  readonly #roundings: DevicePointer;
  #used = 0;
  #disguise: Disguise = { key: 0n, qPhase: 0, kvPhase: 0 };

  constructor(driver: CudaDriver, judge: JudgeKernels, { memory, timed, drawn, heads }: HeadPoolParts) {
    this.#driver = driver;
    this.#judge = judge;
    this.#drawn = drawn;
    const { dtype, values } = timed;
    const { heads: ofLaunch, rows, columns } = matricesOf(outputOf(timed));
    this.#kind = { dtype, rows, columns, causal: values['causal'] === 1 };
    this.#headsOfLaunch = ofLaunch;
    this.#spare = heads - ofLaunch;
    const headBytes = rows * columns * DTYPE_BYTES[dtype];
    this.#headBytes = BigInt(headBytes);
    this.guarded = TENSORS.map(() => memory.regions(1, heads * headBytes));
    const [usual] = drawn;
    const bases = memory.uploadedLists(drawn.flatMap((each) => TENSORS.map((tensor) => [each[tensor]])));
    this.#tensors = drawn.map((each, trial) =>
      TENSORS.map((tensor, index) => {
        const { memory: block, before } = this.guarded[index]!;
        return {
          tensor,
          base: bases[trial * TENSORS.length + index]!,
          bases: tensor === 'Q' ? each.qBases : each.kvBases,
          pool: block + BigInt(before),
          heads,
        };
      }),
    );
    this.noise = { base: this.#tensors[0]![2]!.base, bytes: usual.V.byteLength, dtype };
    this.#answers = memory.allocate(usual.answers.byteLength);
    this.#roundings = memory.allocate(usual.roundings.byteLength);
  }

  /**
   * For each launch, the first head of Q and the first head of K and V. The distance between the two differs in every
   * launch.
   */
  arrange(launches: number): readonly (readonly number[])[] {
    const spare = this.#spare;
    const distances = shuffled(Array.from({ length: 2 * spare + 1 }, (_, index) => index - spare));
    return Array.from({ length: launches }, (_, launch) => {
      const distance = distances[launch]!;
      const q = randomInt(spare - Math.abs(distance) + 1) + Math.max(0, -distance);
      return [q, q + distance];
    });
  }

  addressesAt(place: readonly number[]): Record<string, DevicePointer> {
    const [q, kv] = place as [number, number];
    const [poolQ, poolK, poolV] = this.#tensors[0]!.map(({ pool }) => pool) as [bigint, bigint, bigint];
    return {
      Q: poolQ + BigInt(q) * this.#headBytes,
      K: poolK + BigInt(kv) * this.#headBytes,
      V: poolV + BigInt(kv) * this.#headBytes,
    };
  }

  use(drawn: number): void {
    this.#used = drawn;
  }

  write(key: bigint): void {
    const { qBases, kvBases } = this.#drawn[0];
    this.#disguise = { key, qPhase: randomInt(qBases), kvPhase: randomInt(kvBases) };
    for (const tensor of this.#tensors[this.#used]!) this.#judge.inputs(tensor, this.#kind, this.#disguise);
  }

  checkInputs(): void {
    for (const tensor of this.#tensors[this.#used]!) this.#judge.inputs(tensor, this.#kind, this.#disguise, true);
  }

  checkOutput(checked: CheckedOutput): void {
    const { qBases, kvBases, answers, roundings } = this.#drawn[this.#used]!;
    const expected = { answers: this.#answers, roundings: this.#roundings };
    // Page-locked memory would be copied faster, but the device shares its address: a kernel could read the answers.
    this.#driver.upload(expected.answers, answers);
    this.#driver.upload(expected.roundings, roundings);
    const compared = { ...checked, ...expected, heads: this.#headsOfLaunch, qBases, kvBases };
    this.#judge.outputs(compared, this.#kind, this.#disguise);
    this.#driver.fill8(expected.answers, 0, answers.byteLength);
    this.#driver.fill8(expected.roundings, 0, roundings.byteLength);
  }
}
