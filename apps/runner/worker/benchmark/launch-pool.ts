import { randomBytes, randomInt } from 'node:crypto';
import { DTYPE_BYTES, type Fill, type ProblemCase } from '@flashcore/shared/kernels';
import type { BufferAddresses } from '../driver/arguments.ts';
import type { CudaDriver, DevicePointer } from '../driver/cuda-driver.ts';
import { matricesOf, outputOf } from '../driver/tensor-bits.ts';
import type { PoolSize } from '../messages/pool-size.ts';
import type { DrawnHeads } from './drawn-heads.ts';
import type { Disguise, Found, HeadKind, JudgeKernels, NoiseSource, PoolTensor, Regions } from './judge-kernels.ts';

const GUARD_BYTES = 4096;
const ALIGNMENT = 256;
/** Orders of the launches' buffers among which replays change. */
const ARRANGEMENTS = { gpu: 4, simulated: 1 };
const TENSORS = ['Q', 'K', 'V'] as const;

/** Where a launch of a graph has its buffers: a region of O and workspaces, and the heads that Q and K, V begin at. */
export interface Place {
  region: number;
  q: number;
  kv: number;
}

/** The buffers of all launches of a graph, in one order. */
export interface Arrangement {
  places: readonly Place[];
  /** The same, for judge.cu. */
  table: DevicePointer;
}

interface LaunchPoolParts {
  kind: ProblemCase;
  drawn: DrawnHeads;
  size: PoolSize;
}

/** Where the builds that are timed have their inputs and outputs, and what is right of them. */
export class LaunchPool {
  readonly launches: number;
  readonly regions: number;
  readonly arrangements: readonly Arrangement[];
  readonly noise: NoiseSource;
  readonly #driver: CudaDriver;
  readonly #judge: JudgeKernels;
  readonly #drawn: DrawnHeads;
  readonly #kind: HeadKind;
  readonly #heads: number;
  readonly #headBytes: bigint;
  readonly #tensors: readonly (PoolTensor & { guarded: Regions })[];
  readonly #outputs: Regions;
  readonly #answers: DevicePointer;
  readonly #allocations: DevicePointer[] = [];
  #disguise: Disguise = { key: 0n, qPhase: 0, kvPhase: 0 };

  constructor(driver: CudaDriver, judge: JudgeKernels, { kind, drawn, size }: LaunchPoolParts) {
    this.#driver = driver;
    this.#judge = judge;
    this.#drawn = drawn;
    const { dtype, values } = kind;
    const { heads, rows, columns } = matricesOf(outputOf(kind));
    this.#kind = { dtype, rows, columns, causal: values['causal'] === 1 };
    this.#heads = heads;
    const headBytes = rows * columns * DTYPE_BYTES[dtype];
    this.#headBytes = BigInt(headBytes);
    this.launches = size.launches;
    // A few more than launches: the places that stay empty are others in each arrangement.
    this.regions = driver.facts.simulated ? size.launches : size.launches + Math.ceil(size.launches / 8);
    this.#tensors = TENSORS.map((tensor) => {
      const guarded = this.allocateRegions(1, size.heads * headBytes);
      const bases = tensor === 'Q' ? drawn.qBases : drawn.kvBases;
      return {
        tensor,
        base: this.#uploaded(drawn[tensor]),
        bases,
        pool: guarded.memory + BigInt(guarded.before),
        heads: size.heads,
        guarded,
      };
    });
    this.noise = { base: this.#tensors[2]!.base, bytes: drawn.V.byteLength, dtype };
    this.#outputs = this.allocateRegions(this.regions, this.#heads * headBytes);
    this.#answers = this.#allocate(drawn.answers.byteLength);
    this.arrangements = Array.from({ length: ARRANGEMENTS[driver.facts.simulated ? 'simulated' : 'gpu'] }, () =>
      this.#arrange(size.heads - this.#heads),
    );
  }

  /**
   * Regions with guard bytes around each payload. The emulator's end where their memory ends: its guard page names the
   * thread of the very first access beyond.
   */
  allocateRegions(regions: number, payload: number): Regions {
    const after = this.#driver.facts.simulated ? 0 : GUARD_BYTES;
    const rounded = Math.ceil(Math.max(payload, 4) / 4) * 4;
    const stride = after === 0 && regions === 1 ? GUARD_BYTES + rounded : aligned(GUARD_BYTES + rounded + after);
    return { memory: this.#allocate(regions * stride), regions, stride, before: GUARD_BYTES, payload: rounded };
  }

  /** Where a launch finds its tensors. */
  tensorsAt({ region, q, kv }: Place): BufferAddresses['tensors'] {
    const [poolQ, poolK, poolV] = this.#tensors.map(({ pool }) => pool) as [bigint, bigint, bigint];
    return {
      Q: poolQ + BigInt(q) * this.#headBytes,
      K: poolK + BigInt(kv) * this.#headBytes,
      V: poolV + BigInt(kv) * this.#headBytes,
      O: regionOf(this.#outputs, region),
    };
  }

  /**
   * Before a sample, in stream order: scrubs, makes new noise where launches write, and at last new inputs, which
   * are then in L2 as far as they fit. `own`: the workspaces of the build that is timed next.
   */
  renew(initialOutput: Fill | undefined, own: readonly Regions[]): void {
    const key = randomBytes(8).readBigUInt64LE();
    this.#disguise = { key, qPhase: randomInt(this.#drawn.qBases), kvPhase: randomInt(this.#drawn.kvBases) };
    this.#judge.scrub(key);
    this.renewOwn(initialOutput, own);
    for (const tensor of this.#tensors) this.#judge.inputs(tensor, this.#kind, this.#disguise);
  }

  /** Outputs and workspaces as they were before the sample; the inputs stay. */
  renewOwn(initialOutput: Fill | undefined, own: readonly Regions[]): void {
    this.#eachRegions([{ ...this.#outputs, initial: initialOutput }, ...own], (regions, key) =>
      this.#judge.noise(regions, this.noise, key),
    );
  }

  /**
   * After a sample: every element of every output, the guards, and the inputs. The answers come to the device only now,
   * and are gone from it before another launch runs.
   */
  check(arrangement: Arrangement, tolerance: { absolute: number; relative: number }, own: readonly Regions[]): Found {
    const { qBases, kvBases, answers } = this.#drawn;
    this.#eachRegions([this.#outputs, ...own], (regions, key) => this.#judge.noise(regions, this.noise, key, true));
    for (const tensor of this.#tensors) this.#judge.inputs(tensor, this.#kind, this.#disguise, true);
    this.#driver.upload(this.#answers, answers);
    this.#judge.outputs(
      {
        outputs: this.#outputs,
        answers: this.#answers,
        places: arrangement.table,
        launches: this.launches,
        heads: this.#heads,
        qBases,
        kvBases,
        tolerance,
      },
      this.#kind,
      this.#disguise,
    );
    this.#driver.fill8(this.#answers, 0, answers.byteLength);
    return this.#judge.found();
  }

  free(): void {
    for (const address of this.#allocations) this.#driver.free(address);
    this.#allocations.length = 0;
  }

  /** Every block of memory has a key of its own; the pools' guards too. */
  #eachRegions(own: readonly Regions[], work: (regions: Regions, key: bigint) => void): void {
    const all = [...own, ...this.#tensors.map(({ guarded }) => guarded)];
    for (const [index, regions] of all.entries())
      work(regions, BigInt.asUintN(64, this.#disguise.key + BigInt(index + 1)));
  }

  /** Places for all launches: no two have the same distance between Q and K. */
  #arrange(spare: number): Arrangement {
    const distances = shuffled(Array.from({ length: 2 * spare + 1 }, (_, index) => index - spare));
    const regions = shuffled(Array.from({ length: this.regions }, (_, index) => index));
    const places = Array.from({ length: this.launches }, (_, launch): Place => {
      const distance = distances[launch]!;
      const q = randomInt(spare - Math.abs(distance) + 1) + Math.max(0, -distance);
      return { region: regions[launch]!, q, kv: q + distance };
    });
    return {
      places,
      table: this.#uploaded(Uint32Array.from(places.flatMap(({ region, q, kv }) => [region, q, kv]))),
    };
  }

  #uploaded(values: NodeJS.ArrayBufferView): DevicePointer {
    const address = this.#allocate(values.byteLength);
    this.#driver.upload(address, values);
    return address;
  }

  #allocate(bytes: number): DevicePointer {
    const address = this.#driver.allocate(bytes);
    this.#allocations.push(address);
    return address;
  }
}

export const regionOf = ({ memory, stride, before }: Regions, region: number): DevicePointer =>
  memory + BigInt(region * stride + before);

const aligned = (bytes: number): number => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

function shuffled<Value>(values: Value[]): Value[] {
  for (let left = values.length - 1; left > 0; --left) {
    const other = randomInt(left + 1);
    [values[left], values[other]] = [values[other]!, values[left]!];
  }
  return values;
}
