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
  /** The usual sets, then those of each trial. */
  drawn: readonly [DrawnSets, ...DrawnSets[]];
  slots: number;
}

/** An output's answers, as [sets, ...dims in memory]. */
interface CheckedSlots {
  extent: SlotExtent;
  answers: Float32Array;
  /** Undefined if the output's rounding is not modelled. */
  roundings: Float32Array | undefined;
  roundingExplains: boolean;
}

/** The sets that slots can be made from, on the device. */
interface UploadedSets {
  draws: number;
  tensors: readonly SlotTensor[];
  outputs: ReadonlyMap<string, CheckedSlots>;
}

/** Device memory for the answers of an output and for what rounding explains of them. */
interface ExpectedMemory {
  answers: DevicePointer;
  roundings: DevicePointer;
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
  /** For each element of `drawn`, its sets. */
  readonly #sets: readonly UploadedSets[];
  readonly #expected: ReadonlyMap<string, ExpectedMemory>;
  readonly #slots: number;
  #used = 0;
  #disguise: SlotDisguise = { key: 0n, phase: 0 };

  constructor(driver: CudaDriver, judge: JudgeKernels, { memory, timed, drawn, slots }: InputSlotsParts) {
    this.#driver = driver;
    this.#judge = judge;
    this.#slots = slots;
    const inputs = timed.tensors.filter(({ direction }) => direction === 'in');
    this.names = inputs.map(({ name }) => name);
    this.guarded = inputs.map((tensor) => memory.regions(slots, bytesOfTensor(tensor)));
    const [usual, ...trials] = drawn;
    const first = this.#uploaded(usual, { memory, timed });
    this.#sets = [first, ...trials.map((each) => this.#uploaded(each, { memory, timed }))];
    // Noise comes from the largest input, because noise made of few different values would be easy to recognize.
    const largest = first.tensors.toSorted((a, b) => b.slots.payload - a.slots.payload)[0]!;
    this.noise = { base: largest.drawn, bytes: Math.max(4, largest.slots.payload), dtype: largest.extent.dtype };
    this.#expected = new Map(outputsOf(timed).map(({ name }) => [name, this.#expectedMemory(memory, name)]));
  }

  #uploaded(
    { sets, answers, roundings, explained, doubles }: DrawnSets,
    { memory, timed }: Pick<InputSlotsParts, 'memory' | 'timed'>,
  ): UploadedSets {
    const outputs = outputsOf(timed);
    const inputs = timed.tensors.filter(({ direction }) => direction === 'in');
    const tensors = [...inputs, ...outputs];
    const addresses = memory.uploadedLists([
      ...tensors.map((tensor) => [layoutOf(timed, tensor, doubles)]),
      ...inputs.map((tensor) => sets.map((set) => inMemory(entryOf(set, tensor.name)!, tensor))),
    ]);
    const extents = tensors.map((tensor, index): SlotExtent => {
      const columns = dimsInMemory(tensor).at(-1)!;
      return { dtype: tensor.dtype, rows: elementsOfTensor(tensor) / columns, columns, layout: addresses[index]! };
    });
    return {
      draws: sets.length,
      tensors: inputs.map((_, index) => ({
        input: index,
        drawn: addresses[tensors.length + index]!,
        draws: sets.length,
        extent: extents[index]!,
        slots: this.guarded[index]!,
      })),
      outputs: new Map(
        outputs.map((output, index) => {
          const { name } = output;
          const expected = (values: Float32Array): Float32Array => inMemory(values, eachOf(sets.length, output));
          const rounding = roundings.get(name);
          return [
            name,
            {
              extent: extents[inputs.length + index]!,
              answers: expected(answers.get(name)!),
              roundings: rounding && expected(rounding),
              roundingExplains: explained.has(name),
            },
          ];
        }),
      ),
    };
  }

  /** Room for the answers to any of the sets, which are on the device only while outputs are compared. */
  #expectedMemory(memory: PoolMemory, output: string): ExpectedMemory {
    const most = (bytesOf: (checked: CheckedSlots) => number): number =>
      Math.max(...this.#sets.map(({ outputs }) => bytesOf(outputs.get(output)!)));
    const roundings = most((checked) => checked.roundings?.byteLength ?? 0);
    return {
      answers: memory.allocate(most(({ answers }) => answers.byteLength)),
      roundings: roundings === 0 ? 0n : memory.allocate(roundings),
    };
  }

  arrange(launches: number): readonly (readonly number[])[] {
    const slots = shuffled(Array.from({ length: this.#slots }, (_, slot) => slot));
    return slots.slice(0, launches).map((slot) => [slot]);
  }

  addressesAt([slot]: readonly number[]): Record<string, DevicePointer> {
    return Object.fromEntries(this.names.map((name, index) => [name, regionOf(this.guarded[index]!, slot!)]));
  }

  use(drawn: number): void {
    this.#used = drawn;
  }

  write(key: bigint): void {
    const { draws, tensors } = this.#sets[this.#used]!;
    this.#disguise = { key, phase: randomInt(draws) };
    for (const tensor of tensors) this.#judge.slots(tensor, this.#disguise);
  }

  checkInputs(): void {
    for (const tensor of this.#sets[this.#used]!.tensors) this.#judge.slots(tensor, this.#disguise, true);
  }

  checkOutput(checked: CheckedOutput): void {
    const { draws, outputs } = this.#sets[this.#used]!;
    const { extent, answers, roundings, roundingExplains } = outputs.get(checked.name)!;
    const at = this.#expected.get(checked.name)!;
    const secret = [
      { at: at.answers, values: answers },
      ...(roundings ? [{ at: at.roundings, values: roundings }] : []),
    ];
    for (const { at: address, values } of secret) this.#driver.upload(address, values);
    this.#judge.answers(
      {
        ...checked,
        answers: at.answers,
        roundings: roundings ? at.roundings : 0n,
        explained: roundingExplains ? checked.explained : 0,
        draws,
        extent,
      },
      this.#disguise,
    );
    for (const { at: address, values } of secret) this.#driver.fill8(address, 0, values.byteLength);
  }
}

/** Several tensors in a row, each with its own layout. */
const eachOf = (count: number, { dims, layout }: TensorExtent): Pick<TensorExtent, 'dims' | 'layout'> => ({
  dims: [count, ...dims],
  ...(layout && { layout: [0, ...layout.map((dim) => dim + 1)] }),
});

/** Builds judge.cu's Layout. A symmetry's id is its index among the symmetries with the same act. */
function layoutOf(
  { symmetries }: ProblemCase,
  { name, dims, layout = [...dims.keys()] }: TensorExtent,
  doubles: boolean,
): Uint32Array {
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
    ...padded((dim) => (doubles ? bits(acting('double', dim)) : 0)),
  ]);
}
