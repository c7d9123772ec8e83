import { ELEMENTS, GRID_LIMITS, type ElementDtype, type TensorDtype } from '@flashcore/shared/kernels';
import { parameterArray } from '../driver/arguments.ts';
import type { CudaDriver, DevicePointer, Handle } from '../driver/cuda-driver.ts';
import type { CheckedOutput, KeptMemory, NoiseSource, Regions } from './pool-memory.ts';

const ENTRIES = ['inputs', 'outputs', 'slots', 'answers', 'noise', 'sum', 'hold', 'scrub'] as const;
type Entry = (typeof ENTRIES)[number];

const TENSORS = { Q: 0, K: 1, V: 2 } as const;
/**
 * Maximum number of CTAs per kernel; more would only queue. On the emulator, threads cost more than loop iterations.
 */
const CTAS = { gpu: 8_192, simulated: 1 };
const NOISE_THREADS = { gpu: 256, simulated: 1 };
const SCRUB_THREADS = { gpu: 1024, simulated: 1 };
const SIMULATED_SCRUB_BYTES = 4_096;

/** CTAs for each part of a checksum. Each CTA adds its own sum to one address. */
const SUM_CTAS = { gpu: 256, simulated: 1 };
/** Same as in judge.cu's Parts. */
const MOST_PARTS = 64;

/** Indices of the device words in which the judge's kernels count. */
const FOUND = { outside: 0, first: 1, compared: 2, rounding: 3, guards: 4, sum: 5, changed: 6 } as const;
/** Maximum number of inputs; each has its own counter word. */
export const MOST_INPUTS = 16;
const FOUND_WORDS = FOUND.changed + MOST_INPUTS;
/** The unit of the counts that share_of_rounding() in judge.cu returns. */
const ROUNDING_UNIT = 1 / 4096;
/** As in verification, an error is judged over at least this many rows, because fewer are too few for a mean. */
const ROUNDED_ROWS = 16;

/** Counts from the checks of one sample. */
export interface Found {
  /** Elements that are outside the tolerance or not finite. */
  outside: number;
  /** Index of the first element in `outside`, in [launches, ...dims of the output in memory]. */
  first: number;
  compared: number;
  /** Error of the worst rows, in units of what rounding explains; 0 if rounding is not modelled. */
  rounding: number;
  /** Elements of each input that changed after they were written, in the inputs' order. */
  changed: number[];
  /** Guard words that changed. */
  guards: number;
  /** Sum of the checksums that sum() computed since the last call. */
  sum: bigint;
}

/** A head's extent, element type and mask. */
export interface HeadKind {
  dtype: TensorDtype;
  rows: number;
  columns: number;
  causal: boolean;
}

/** How the inputs of a sample are derived from the drawn heads. */
export interface Disguise {
  /** Known only to the judge; different in every sample. */
  key: bigint;
  /** Index of the drawn head that the first head of a pool is made from. */
  qPhase: number;
  kvPhase: number;
}

/** Q, K or V of a pool, with the drawn heads it is made from. */
export interface PoolTensor {
  tensor: keyof typeof TENSORS;
  base: DevicePointer;
  bases: number;
  pool: DevicePointer;
  heads: number;
}

/** How the inputs of a sample are derived from the drawn sets. */
export interface SlotDisguise {
  key: bigint;
  /** Index of the drawn set that the first slot is made from. */
  phase: number;
}

/** One input of every slot, with the drawn sets it is made from. */
export interface SlotTensor {
  /** Index of this input among the inputs. */
  input: number;
  /** [draws, ...dims]. */
  drawn: DevicePointer;
  draws: number;
  extent: SlotExtent;
  slots: Regions;
}

/** A tensor's extents for the grid, and the address of its Layout for judge.cu. */
export interface SlotExtent {
  dtype: ElementDtype;
  rows: number;
  columns: number;
  layout: DevicePointer;
}

interface ComparedOutput extends Omit<CheckedOutput, 'name'> {
  answers: DevicePointer;
  /** The error of each answer that rounding explains; 0n if that is not modelled. */
  roundings: DevicePointer;
}

export interface ComparedSlots extends ComparedOutput {
  draws: number;
  extent: SlotExtent;
}

export interface ComparedHeads extends ComparedOutput {
  heads: number;
  qBases: number;
  kvBases: number;
}

interface LaunchSize {
  grid: readonly [number, number];
  threads: number;
  sharedBytes?: number;
}

/** The loaded judge.cu. All of its kernels run in stream order; found() reads what they count. */
export class JudgeKernels {
  readonly #driver: CudaDriver;
  readonly #module: Handle;
  readonly #functions: Record<Entry, Handle>;
  readonly #found: DevicePointer;
  readonly #where: 'gpu' | 'simulated';
  readonly #scrubBytes: number;

  constructor(driver: CudaDriver, image: string) {
    this.#driver = driver;
    this.#where = driver.facts.simulated ? 'simulated' : 'gpu';
    this.#scrubBytes = driver.facts.simulated ? SIMULATED_SCRUB_BYTES : driver.facts.smemOptinBytes;
    this.#module = driver.loadModule(image);
    this.#functions = Object.fromEntries(
      ENTRIES.map((entry) => [
        entry,
        driver.function(this.#module, `flashcore_judge_${entry}`, {
          sharedBytes: entry === 'scrub' ? this.#scrubBytes : 0,
          cluster: false,
        }),
      ]),
    ) as Record<Entry, Handle>;
    this.#found = driver.allocate(FOUND_WORDS * 8);
    this.forget();
  }

  /**
   * Makes a pool's tensor from drawn heads. With `check`, counts the elements that differ from what this call would
   * write.
   */
  inputs(
    { tensor, base, bases, pool, heads }: PoolTensor,
    kind: HeadKind,
    { key, qPhase, kvPhase }: Disguise,
    check = false,
  ): void {
    this.#launch('inputs', { grid: this.#rowGrid(kind, heads), threads: this.#columnThreads(kind) }, [
      u64(base),
      u64(pool),
      u64(this.#changed(TENSORS[tensor])),
      u64(key),
      u32(TENSORS[tensor]),
      u32(heads),
      u32(bases),
      u32(tensor === 'Q' ? qPhase : kvPhase),
      ...extentOf(kind),
      u32(Number(check)),
    ]);
  }

  /** Fills regions with noise that looks like drawn values; with `check`, counts the guard words that have changed. */
  noise(regions: Regions, { base, bytes, dtype }: NoiseSource, key: bigint, check = false): void {
    const { memory, stride, before, payload, initial } = regions;
    const threads = NOISE_THREADS[this.#where];
    const rows = Math.min(regions.regions, GRID_LIMITS[1]);
    const columns = Math.max(1, Math.min(Math.ceil(stride / 4 / threads), Math.ceil(CTAS[this.#where] / rows)));
    this.#launch('noise', { grid: [columns, rows], threads }, [
      u64(base),
      u32(Math.floor(bytes / 4)),
      u64(memory),
      u64(this.#at('guards')),
      u64(key),
      u32(regions.regions),
      u64(stride),
      u64(before),
      u64(payload),
      u32(initial?.bytes ?? 0),
      u32(initial?.bits ?? 0),
      u32(ELEMENTS[dtype].number),
      u32(Number(check)),
    ]);
  }

  /** Compares the outputs of all launches with the answers of the drawn heads. */
  outputs(compared: ComparedHeads, kind: HeadKind, { key, qPhase, kvPhase }: Disguise): void {
    const { outputs, answers, roundings, places, launches, heads, qBases, kvBases, tolerance } = compared;
    const grid = this.#rowGrid(kind, launches * heads, ROUNDED_ROWS);
    this.#launch('outputs', { grid, threads: this.#columnThreads(kind) }, [
      u64(outputs.memory),
      u64(answers),
      u64(roundings),
      u64(places),
      u64(this.#found),
      u64(key),
      u64(outputs.stride),
      u64(outputs.before),
      u32(launches),
      u32(heads),
      u32(qBases),
      u32(kvBases),
      u32(qPhase),
      u32(kvPhase),
      ...extentOf(kind),
      f32(tolerance.absolute),
      f32(tolerance.relative),
    ]);
  }

  /**
   * Makes an input of every slot from the drawn sets. With `check`, counts elements that differ from what this would
   * write.
   */
  slots({ input, drawn, draws, extent, slots }: SlotTensor, { key, phase }: SlotDisguise, check = false): void {
    if (input >= MOST_INPUTS) throw new RangeError(`the judge counts ${MOST_INPUTS} inputs, and this is one more`);
    this.#launch('slots', { grid: this.#rowGrid(extent, slots.regions), threads: this.#columnThreads(extent) }, [
      u64(drawn),
      u64(slots.memory),
      u64(this.#changed(input)),
      u64(key),
      u64(extent.layout),
      u64(slots.stride),
      u64(slots.before),
      u32(slots.regions),
      u32(draws),
      u32(phase),
      u32(ELEMENTS[extent.dtype].number),
      u32(Number(check)),
    ]);
  }

  /** Compares the outputs of all launches with the answers of the drawn sets. */
  answers(compared: ComparedSlots, { key, phase }: SlotDisguise): void {
    const { outputs, answers, roundings, places, launches, draws, extent, tolerance, explained } = compared;
    const grid = this.#rowGrid(extent, launches, ROUNDED_ROWS);
    this.#launch('answers', { grid, threads: this.#columnThreads(extent) }, [
      u64(outputs.memory),
      u64(answers),
      u64(roundings),
      u64(places),
      u64(this.#found),
      u64(key),
      u64(extent.layout),
      u64(outputs.stride),
      u64(outputs.before),
      u32(launches),
      u32(draws),
      u32(phase),
      u32(ELEMENTS[extent.dtype].number),
      f32(tolerance.absolute),
      f32(tolerance.relative),
      f32(explained),
    ]);
  }

  /** Adds a checksum of memory, keyed by a secret number, to the counts. */
  sum(memory: readonly KeptMemory[], key: bigint): void {
    const threads = NOISE_THREADS[this.#where];
    for (let first = 0; first < memory.length; first += MOST_PARTS) {
      const parts = memory.slice(first, first + MOST_PARTS);
      const words = Math.max(...parts.map(({ bytes }) => Math.ceil(bytes / 4)));
      const ctas = Math.max(1, Math.min(SUM_CTAS[this.#where], Math.ceil(words / threads)));
      const table = new BigUint64Array(2 * MOST_PARTS);
      for (const [index, { address, bytes }] of parts.entries()) {
        table[index] = address;
        table[MOST_PARTS + index] = BigInt(bytes);
      }
      this.#launch('sum', { grid: [ctas, parts.length], threads }, [
        Buffer.from(table.buffer),
        u64(this.#at('sum')),
        u64(BigInt.asUintN(64, key + BigInt(first))),
      ]);
    }
  }

  /** Keeps the stream busy. Does nothing on the emulator, where the host executes the kernels itself. */
  hold(microseconds: number): void {
    if (this.#where === 'gpu')
      this.#launch('hold', { grid: [1, 1], threads: 1 }, [u64(Math.ceil(microseconds * 1000))]);
  }

  /** Overwrites what earlier launches left in shared and local memory. */
  scrub(key: bigint): void {
    const grid = this.#where === 'gpu' ? this.#driver.facts.multiprocessors : 1;
    this.#launch('scrub', { grid: [grid, 1], threads: SCRUB_THREADS[this.#where], sharedBytes: this.#scrubBytes }, [
      u64(key),
      u32(this.#scrubBytes / 4 - 1),
      u64(this.#found),
    ]);
  }

  /** Counts since the last call. Waits for the stream. */
  found(): Found {
    const words = new BigUint64Array(FOUND_WORDS);
    this.#driver.synchronize();
    this.#driver.download(words, this.#found);
    this.forget();
    const of = (name: keyof typeof FOUND): number => Number(words[FOUND[name]]!);
    return {
      outside: of('outside'),
      first: of('first'),
      compared: of('compared'),
      rounding: Math.sqrt(of('rounding') * ROUNDING_UNIT),
      changed: [...words.subarray(FOUND.changed)].map(Number),
      guards: of('guards'),
      sum: words[FOUND.sum]!,
    };
  }

  close(): void {
    this.#driver.free(this.#found);
    this.#driver.unloadModule(this.#module);
  }

  /**
   * Sets all counts to zero, in stream order. Called before the checks of a sample, because the sample's launches could
   * have written to the counts.
   */
  forget(): void {
    this.#driver.fill8(this.#found, 0, FOUND_WORDS * 8);
    this.#driver.fill8(this.#at('first'), 0xff, 8);
  }

  #at(name: keyof typeof FOUND): DevicePointer {
    return this.#found + BigInt(FOUND[name] * 8);
  }

  #changed(input: number): DevicePointer {
    return this.#at('changed') + BigInt(input * 8);
  }

  /** A CTA gets at least `least` rows, if there are as many. */
  #rowGrid({ rows: extent }: Pick<HeadKind, 'rows'>, heads: number, least = 1): readonly [number, number] {
    const rows = Math.min(heads, GRID_LIMITS[1]);
    const most = Math.max(1, Math.floor(extent / least));
    return [Math.max(1, Math.min(most, Math.ceil(CTAS[this.#where] / rows))), rows];
  }

  #columnThreads({ columns }: Pick<HeadKind, 'columns'>): number {
    return this.#where === 'gpu' ? Math.min(256, 32 * Math.ceil(columns / 32)) : 1;
  }

  #launch(entry: Entry, { grid: [x, y], threads, sharedBytes = 0 }: LaunchSize, values: readonly Buffer[]): void {
    this.#driver.launch({
      function: this.#functions[entry],
      grid: [x, y, 1],
      block: [threads, 1, 1],
      sharedBytes,
      stream: this.#driver.stream,
      parameters: parameterArray(values),
    });
  }
}

const extentOf = ({ rows, columns, causal, dtype }: HeadKind): Buffer[] => [
  u32(rows),
  u32(columns),
  u32(Number(causal)),
  u32(ELEMENTS[dtype].number),
];

function u64(value: bigint | number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
}

function f32(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeFloatLE(value);
  return bytes;
}
