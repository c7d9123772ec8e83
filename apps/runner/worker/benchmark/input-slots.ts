import { randomInt } from 'node:crypto';
import { DTYPE_BYTES, elementsOfTensor, type ProblemCase, type TensorExtent } from '@flashcore/shared/kernels';
import type { CudaDriver, DevicePointer } from '../driver/cuda-driver.ts';
import { outputOf } from '../driver/tensor-bits.ts';
import type { DrawnSets } from './drawn-sets.ts';
import type { JudgeKernels, NoiseSource, SlotDisguise, SlotExtent, SlotTensor } from './judge-kernels.ts';
import type { CheckedOutputs, LaunchInputs } from './launch-inputs.ts';
import { type PoolMemory, type Regions, regionOf, shuffled } from './pool-memory.ts';

/** As judge.cu's Layout. */
const MAX_RANK = 8;

interface InputSlotsParts {
  memory: PoolMemory;
  timed: ProblemCase;
  drawn: DrawnSets;
  slots: number;
}

/**
 * The inputs of any problem: a slot of its input tensors for each launch, made from a few drawn sets by the symmetries
 * that the problem declares.
 */
export class InputSlots implements LaunchInputs {
  readonly names: readonly string[];
  readonly noise: NoiseSource;
  readonly guarded: readonly Regions[];
  readonly #driver: CudaDriver;
  readonly #judge: JudgeKernels;
  readonly #drawn: DrawnSets;
  readonly #tensors: readonly SlotTensor[];
  readonly #output: SlotExtent;
  readonly #answers: DevicePointer;
  readonly #slots: number;
  #disguise: SlotDisguise = { key: 0n, phase: 0 };

  constructor(driver: CudaDriver, judge: JudgeKernels, { memory, timed, drawn, slots }: InputSlotsParts) {
    this.#driver = driver;
    this.#judge = judge;
    this.#drawn = drawn;
    this.#slots = slots;
    const { dtype } = timed;
    const inputs = timed.tensors.filter(({ direction }) => direction === 'in');
    this.names = inputs.map(({ name }) => name);
    this.guarded = inputs.map((tensor) => memory.regions(slots, elementsOfTensor(tensor) * DTYPE_BYTES[dtype]));
    const extentOf = (tensor: TensorExtent): SlotExtent => ({
      dtype,
      rows: elementsOfTensor(tensor) / tensor.dims.at(-1)!,
      columns: tensor.dims.at(-1)!,
      layout: memory.uploaded(layoutOf(timed, tensor)),
    });
    this.#tensors = inputs.map((tensor, index) => {
      const bits = drawn.sets.map((set) => set[tensor.name]!);
      const base = memory.allocate(bits.reduce((bytes, { byteLength }) => bytes + byteLength, 0));
      for (const [set, each] of bits.entries()) driver.upload(base + BigInt(set * each.byteLength), each);
      return {
        input: index,
        drawn: base,
        draws: drawn.sets.length,
        extent: extentOf(tensor),
        slots: this.guarded[index]!,
      };
    });
    // Of the largest input: noise of few different values would be known at sight.
    const largest = this.#tensors.toSorted((a, b) => b.slots.payload - a.slots.payload)[0]!;
    this.noise = { base: largest.drawn, bytes: Math.max(4, largest.slots.payload), dtype };
    this.#output = extentOf(outputOf(timed));
    this.#answers = memory.allocate(drawn.answers.byteLength);
  }

  arrange(launches: number): readonly (readonly number[])[] {
    const slots = shuffled(Array.from({ length: this.#slots }, (_, slot) => slot));
    return slots.slice(0, launches).map((slot) => [slot]);
  }

  addressesAt([slot]: readonly number[]): Record<string, DevicePointer> {
    return Object.fromEntries(this.names.map((name, index) => [name, regionOf(this.guarded[index]!, slot!)]));
  }

  write(key: bigint): void {
    this.#disguise = { key, phase: randomInt(this.#drawn.sets.length) };
    for (const tensor of this.#tensors) this.#judge.slots(tensor, this.#disguise);
  }

  checkInputs(): void {
    for (const tensor of this.#tensors) this.#judge.slots(tensor, this.#disguise, true);
  }

  checkOutputs(checked: CheckedOutputs): void {
    const { answers, sets } = this.#drawn;
    this.#driver.upload(this.#answers, answers);
    const compared = { ...checked, answers: this.#answers, draws: sets.length, extent: this.#output };
    this.#judge.answers(compared, this.#disguise);
    this.#driver.fill8(this.#answers, 0, answers.byteLength);
  }
}

/** judge.cu's Layout. The id of a symmetry is its place among those of its act. */
function layoutOf({ symmetries }: ProblemCase, { name, dims }: TensorExtent): Uint32Array {
  const acting = (act: 'permute' | 'flip' | 'double', dim: number): number[] =>
    symmetries
      .filter((symmetry) => symmetry.act === act)
      .flatMap((symmetry, id) => (symmetry.dims[name]?.includes(dim) ? [id] : []));
  const padded = (valueOf: (dim: number) => number): number[] =>
    Array.from({ length: MAX_RANK }, (_, dim) => (dim < dims.length ? valueOf(dim) : 0));
  const bits = (ids: readonly number[]): number => ids.reduce((mask, id) => mask | (1 << id), 0) >>> 0;
  return Uint32Array.from([
    dims.length,
    ...padded((dim) => dims[dim]!),
    ...padded((dim) => (acting('permute', dim)[0] ?? -1) + 1),
    ...padded((dim) => bits(acting('flip', dim))),
    ...padded((dim) => bits(acting('double', dim))),
  ]);
}
