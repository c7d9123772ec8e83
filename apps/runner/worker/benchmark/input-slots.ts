import { randomInt } from 'node:crypto';
import { bytesOfTensor, elementsOfTensor, type ProblemCase, type TensorExtent } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { CudaDriver, DevicePointer } from '../driver/cuda-driver.ts';
import { dimsInMemory, inMemory, outputsOf } from '../driver/tensor-bits.ts';
import type { DrawnSets } from './drawn-sets.ts';
import type { JudgeKernels, SlotDisguise, SlotExtent, SlotTensor } from './judge-kernels.ts';
import {
  type CheckedOutput,
  type LaunchInputs,
  type NoiseSource,
  type PoolMemory,
  type Regions,
  regionOf,
  shuffled,
} from './pool-memory.ts';

/** Same as in judge.cu's Layout. */
const MAX_RANK = 8;

interface InputSlotsParts {
  memory: PoolMemory;
  timed: ProblemCase;
  drawn: DrawnSets;
  slots: number;
}

/** Values that the host knows for an output, as [sets, ...dims in memory], and their address on the device. */
interface Expected {
  values: Float32Array;
  at: DevicePointer;
}

interface CheckedSlots {
  extent: SlotExtent;
  answers: Expected;
  /** Undefined if the output's rounding is not modelled. */
  roundings: Expected | undefined;
  roundingExplains: boolean;
}

/**
 * The inputs of any problem. Each launch has a slot with its input tensors, made from a few drawn sets by the
 * symmetries that the problem declares.
 */
export class InputSlots implements LaunchInputs {
  readonly names: readonly string[];
  readonly noise: NoiseSource;
  readonly guarded: readonly Regions[];
  readonly #driver: CudaDriver;
  readonly #judge: JudgeKernels;
  readonly #drawn: DrawnSets;
  readonly #tensors: readonly SlotTensor[];
  readonly #outputs: ReadonlyMap<string, CheckedSlots>;
  readonly #slots: number;
  #disguise: SlotDisguise = { key: 0n, phase: 0 };

  constructor(driver: CudaDriver, judge: JudgeKernels, { memory, timed, drawn, slots }: InputSlotsParts) {
    this.#driver = driver;
    this.#judge = judge;
    this.#drawn = drawn;
    this.#slots = slots;
    const inputs = timed.tensors.filter(({ direction }) => direction === 'in');
    this.names = inputs.map(({ name }) => name);
    this.guarded = inputs.map((tensor) => memory.regions(slots, bytesOfTensor(tensor)));
    const extentOf = (tensor: TensorExtent): SlotExtent => {
      const columns = dimsInMemory(tensor).at(-1)!;
      return {
        dtype: tensor.dtype,
        rows: elementsOfTensor(tensor) / columns,
        columns,
        layout: memory.uploaded(layoutOf(timed, tensor)),
      };
    };
    this.#tensors = inputs.map((tensor, index) => {
      const bits = drawn.sets.map((set) => inMemory(entryOf(set, tensor.name)!, tensor));
      return {
        input: index,
        drawn: memory.uploaded(...bits),
        draws: drawn.sets.length,
        extent: extentOf(tensor),
        slots: this.guarded[index]!,
      };
    });
    // Noise comes from the largest input, because noise made of few different values would be easy to recognize.
    const largest = this.#tensors.toSorted((a, b) => b.slots.payload - a.slots.payload)[0]!;
    this.noise = { base: largest.drawn, bytes: Math.max(4, largest.slots.payload), dtype: largest.extent.dtype };
    const expected = (values: Float32Array, output: TensorExtent): Expected => ({
      values: inMemory(values, eachOf(drawn.sets.length, output)),
      at: memory.allocate(values.byteLength),
    });
    this.#outputs = new Map(
      outputsOf(timed).map((output) => {
        const rounding = drawn.roundings.get(output.name);
        return [
          output.name,
          {
            extent: extentOf(output),
            answers: expected(drawn.answers.get(output.name)!, output),
            roundings: rounding && expected(rounding, output),
            roundingExplains: drawn.explained.has(output.name),
          },
        ];
      }),
    );
  }

  arrange(launches: number): readonly (readonly number[])[] {
    const slots = shuffled(Array.from({ length: this.#slots }, (_, slot) => slot));
    return slots.slice(0, launches).map((slot) => [slot]);
  }

  addressesAt([slot]: readonly number[]): Record<string, DevicePointer> {
    return Object.fromEntries(this.names.map((name, index) => [name, regionOf(this.guarded[index]!, slot!)]));
  }

  use(drawn: number): void {
    if (drawn !== 0) throw new RangeError('slots have no trials');
  }

  write(key: bigint): void {
    this.#disguise = { key, phase: randomInt(this.#drawn.sets.length) };
    for (const tensor of this.#tensors) this.#judge.slots(tensor, this.#disguise);
  }

  checkInputs(): void {
    for (const tensor of this.#tensors) this.#judge.slots(tensor, this.#disguise, true);
  }

  checkOutput(checked: CheckedOutput): void {
    const { extent, answers, roundings, roundingExplains } = this.#outputs.get(checked.name)!;
    const secret = roundings ? [answers, roundings] : [answers];
    for (const { at, values } of secret) this.#driver.upload(at, values);
    this.#judge.answers(
      {
        ...checked,
        answers: answers.at,
        roundings: roundings?.at ?? 0n,
        explained: roundingExplains ? checked.explained : 0,
        draws: this.#drawn.sets.length,
        extent,
      },
      this.#disguise,
    );
    for (const { at, values } of secret) this.#driver.fill8(at, 0, values.byteLength);
  }
}

/** Several tensors in a row, each with its own layout. */
const eachOf = (count: number, { dims, layout }: TensorExtent): Pick<TensorExtent, 'dims' | 'layout'> => ({
  dims: [count, ...dims],
  ...(layout && { layout: [0, ...layout.map((dim) => dim + 1)] }),
});

/** Builds judge.cu's Layout. A symmetry's id is its index among the symmetries with the same act. */
function layoutOf({ symmetries }: ProblemCase, { name, dims, layout = [...dims.keys()] }: TensorExtent): Uint32Array {
  const acting = (act: 'permute' | 'flip' | 'double', dim: number): number[] =>
    symmetries
      .filter((symmetry) => symmetry.act === act)
      .flatMap((symmetry, id) => (entryOf(symmetry.dims, name)?.includes(dim) ? [id] : []));
  const padded = (valueOf: (dim: number) => number): number[] =>
    Array.from({ length: MAX_RANK }, (_, place) => (place < dims.length ? valueOf(layout[place]!) : 0));
  const bits = (ids: readonly number[]): number => ids.reduce((mask, id) => mask | (1 << id), 0) >>> 0;
  return Uint32Array.from([
    dims.length,
    ...padded((dim) => dims[dim]!),
    ...padded((dim) => (acting('permute', dim)[0] ?? -1) + 1),
    ...padded((dim) => bits(acting('flip', dim))),
    ...padded((dim) => bits(acting('double', dim))),
  ]);
}
