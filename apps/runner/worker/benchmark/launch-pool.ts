import { randomBytes } from 'node:crypto';
import type { Fill } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { BufferAddresses } from '../driver/arguments.ts';
import type { CudaDriver, DevicePointer } from '../driver/cuda-driver.ts';
import type { OutputExtent } from '../driver/tensor-bits.ts';
import type { Found, JudgeKernels } from './judge-kernels.ts';
import { type LaunchInputs, type PoolMemory, type Regions, regionOf, shuffled } from './pool-memory.ts';

/** The buffers of one launch of a graph: a region of the output and of the workspaces, and its inputs. */
export interface Place {
  region: number;
  inputs: readonly number[];
}

/** The buffers of all launches of a graph, in one order. */
export interface Arrangement {
  places: readonly Place[];
  /** The same places as a table, for judge.cu. */
  table: DevicePointer;
}

type InitialOutputs = Readonly<Record<string, Fill>> | undefined;

/** An output and its tolerance. */
export interface CheckedTensor {
  output: OutputExtent;
  tolerance: { absolute: number; relative: number };
  /** As in CheckedOutput. */
  explained: number;
  /** Maximum error in units of what rounding explains, by drawn values; Infinity if that is not judged. */
  roundingLimits: readonly number[];
}

/** The check results of one output. Those of the first output also cover inputs and guards. */
export interface FoundInOutput extends Pick<CheckedTensor, 'output'> {
  roundingLimit: number;
  found: Found;
  /** Whether memory that only the judge may write has changed. */
  tampered: boolean;
}

interface LaunchPoolParts {
  memory: PoolMemory;
  inputs: LaunchInputs;
  outputs: readonly { name: string; bytes: number }[];
  launches: number;
  /** Number of different buffer orders among which replays alternate. */
  arrangements: number;
}

/** The inputs and outputs of the timed builds, with the checks of both. */
export class LaunchPool {
  readonly launches: number;
  readonly regions: number;
  readonly arrangements: readonly Arrangement[];
  readonly #judge: JudgeKernels;
  readonly #memory: PoolMemory;
  readonly #inputs: LaunchInputs;
  readonly #outputs: ReadonlyMap<string, Regions>;
  /** Key of the checksum of memory that launches must not change; only the judge's own launches get it. */
  readonly #sumKey = randomBytes(8).readBigUInt64LE();
  #sum: { value: bigint; parts: number } | undefined;
  #key = 0n;
  #used = 0;

  constructor(
    driver: CudaDriver,
    judge: JudgeKernels,
    { memory, inputs, outputs, launches, arrangements }: LaunchPoolParts,
  ) {
    this.#judge = judge;
    this.#memory = memory;
    this.#inputs = inputs;
    this.launches = launches;
    // A few more regions than launches, so that the unused places differ between arrangements.
    this.regions = driver.facts.simulated ? launches : launches + Math.ceil(launches / 8);
    this.#outputs = new Map(outputs.map(({ name, bytes }) => [name, this.allocateRegions(this.regions, bytes)]));
    this.arrangements = Array.from({ length: arrangements }, () => this.#arrange());
  }

  allocateRegions(regions: number, payload: number): Regions {
    return this.#memory.regions(regions, payload);
  }

  /** Selects the drawn values for the inputs of later samples: 0 for the usual ones, or a trial's number. */
  use(drawn: number): void {
    this.#used = drawn;
    this.#inputs.use(drawn);
  }

  /** The addresses of a launch's tensors. */
  tensorsAt({ region, inputs }: Place): BufferAddresses['tensors'] {
    const outputs = [...this.#outputs].map(([name, regions]) => [name, regionOf(regions, region)] as const);
    return { ...this.#inputs.addressesAt(inputs), ...Object.fromEntries(outputs) };
  }

  /**
   * Prepares a sample, in stream order: scrubs, writes new noise to the places where launches write, and finally writes
   * new inputs, which are then in L2 as far as they fit. `own` holds the workspaces of the build that is timed next.
   */
  renew(initial: InitialOutputs, own: readonly Regions[]): void {
    // Builds may have allocated more memory since the last sum; a build that has just allocated was not launched yet.
    const parts = this.#memory.kept.length;
    if (this.#sum?.parts !== parts) {
      this.#judge.forget();
      this.#sumKept();
      this.#sum = { value: this.#judge.found().sum, parts };
    }
    this.#key = randomBytes(8).readBigUInt64LE();
    this.#judge.scrub(this.#key);
    this.renewOwn(initial, own);
    this.#inputs.write(this.#key);
  }

  /** Restores outputs and workspaces to their state before the sample; the inputs stay. */
  renewOwn(initial: InitialOutputs, own: readonly Regions[]): void {
    const outputs = [...this.#outputs].map(([name, regions]) => ({
      ...regions,
      initial: initial && entryOf(initial, name),
    }));
    this.#eachRegions([...outputs, ...own], (regions, key) => this.#judge.noise(regions, this.#inputs.noise, key));
  }

  /** Checks every output, the guard bytes and the inputs after a sample. */
  check(arrangement: Arrangement, outputs: readonly CheckedTensor[], own: readonly Regions[]): FoundInOutput[] {
    this.#judge.forget();
    this.#sumKept();
    this.#eachRegions([...this.#outputs.values(), ...own], (regions, key) =>
      this.#judge.noise(regions, this.#inputs.noise, key, true),
    );
    this.#inputs.checkInputs();
    const { launches } = this;
    return outputs.map(({ output, tolerance, explained, roundingLimits }, index) => {
      const { name } = output;
      this.#inputs.checkOutput({
        name,
        outputs: this.#outputs.get(name)!,
        places: arrangement.table,
        launches,
        tolerance,
        explained,
      });
      const found = this.#judge.found();
      const roundingLimit = roundingLimits[this.#used]!;
      return { output, roundingLimit, tampered: index === 0 && found.sum !== this.#sum?.value, found };
    });
  }

  #sumKept(): void {
    this.#judge.sum(this.#memory.kept, this.#sumKey);
  }

  /** Names of the inputs, in the order in which Found counts them. */
  get inputNames(): readonly string[] {
    return this.#inputs.names;
  }

  free(): void {
    this.#memory.free();
  }

  /** Calls `work` for every block of memory, including the inputs' guards, each with a key of its own. */
  #eachRegions(own: readonly Regions[], work: (regions: Regions, key: bigint) => void): void {
    for (const [index, regions] of [...own, ...this.#inputs.guarded].entries())
      work(regions, BigInt.asUintN(64, this.#key + BigInt(index + 1)));
  }

  #arrange(): Arrangement {
    const regions = shuffled(Array.from({ length: this.regions }, (_, index) => index));
    const places = this.#inputs
      .arrange(this.launches)
      .map((inputs, launch): Place => ({ region: regions[launch]!, inputs }));
    return {
      places,
      table: this.#memory.uploaded(Uint32Array.from(places.flatMap(({ region, inputs }) => [region, ...inputs]))),
    };
  }
}
