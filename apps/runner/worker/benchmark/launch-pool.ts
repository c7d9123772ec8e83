import { randomBytes } from 'node:crypto';
import type { Fill } from '@flashcore/shared/kernels';
import type { BufferAddresses } from '../driver/arguments.ts';
import type { CudaDriver, DevicePointer } from '../driver/cuda-driver.ts';
import type { Found, JudgeKernels } from './judge-kernels.ts';
import type { LaunchInputs } from './launch-inputs.ts';
import { type PoolMemory, type Regions, regionOf, shuffled } from './pool-memory.ts';

/** Orders of the launches' buffers among which replays change. */
const ARRANGEMENTS = { gpu: 4, simulated: 1 };

/** Where a launch of a graph has its buffers: a region of the output and of workspaces, and its inputs. */
export interface Place {
  region: number;
  inputs: readonly number[];
}

/** The buffers of all launches of a graph, in one order. */
export interface Arrangement {
  places: readonly Place[];
  /** The same, for judge.cu. */
  table: DevicePointer;
}

interface LaunchPoolParts {
  memory: PoolMemory;
  inputs: LaunchInputs;
  output: { name: string; bytes: number };
  launches: number;
}

/** Where the builds that are timed have their inputs and outputs, and what is right of them. */
export class LaunchPool {
  readonly launches: number;
  readonly regions: number;
  readonly arrangements: readonly Arrangement[];
  readonly #judge: JudgeKernels;
  readonly #memory: PoolMemory;
  readonly #inputs: LaunchInputs;
  readonly #outputName: string;
  readonly #outputs: Regions;
  #key = 0n;

  constructor(driver: CudaDriver, judge: JudgeKernels, { memory, inputs, output, launches }: LaunchPoolParts) {
    this.#judge = judge;
    this.#memory = memory;
    this.#inputs = inputs;
    this.launches = launches;
    // A few more than launches: the places that stay empty are others in each arrangement.
    this.regions = driver.facts.simulated ? launches : launches + Math.ceil(launches / 8);
    this.#outputName = output.name;
    this.#outputs = this.allocateRegions(this.regions, output.bytes);
    this.arrangements = Array.from({ length: ARRANGEMENTS[driver.facts.simulated ? 'simulated' : 'gpu'] }, () =>
      this.#arrange(),
    );
  }

  allocateRegions(regions: number, payload: number): Regions {
    return this.#memory.regions(regions, payload);
  }

  /** Where a launch finds its tensors. */
  tensorsAt({ region, inputs }: Place): BufferAddresses['tensors'] {
    return { ...this.#inputs.addressesAt(inputs), [this.#outputName]: regionOf(this.#outputs, region) };
  }

  /**
   * Before a sample, in stream order: scrubs, makes new noise where launches write, and at last new inputs, which
   * are then in L2 as far as they fit. `own`: the workspaces of the build that is timed next.
   */
  renew(initialOutput: Fill | undefined, own: readonly Regions[]): void {
    this.#key = randomBytes(8).readBigUInt64LE();
    this.#judge.scrub(this.#key);
    this.renewOwn(initialOutput, own);
    this.#inputs.write(this.#key);
  }

  /** Outputs and workspaces as they were before the sample; the inputs stay. */
  renewOwn(initialOutput: Fill | undefined, own: readonly Regions[]): void {
    this.#eachRegions([{ ...this.#outputs, initial: initialOutput }, ...own], (regions, key) =>
      this.#judge.noise(regions, this.#inputs.noise, key),
    );
  }

  /** After a sample: every element of every output, the guards, and the inputs. */
  check(arrangement: Arrangement, tolerance: { absolute: number; relative: number }, own: readonly Regions[]): Found {
    this.#eachRegions([this.#outputs, ...own], (regions, key) =>
      this.#judge.noise(regions, this.#inputs.noise, key, true),
    );
    this.#inputs.checkInputs();
    const { launches } = this;
    this.#inputs.checkOutputs({ outputs: this.#outputs, places: arrangement.table, launches, tolerance });
    return this.#judge.found();
  }

  /** Names of the inputs, as Found counts them. */
  get inputNames(): readonly string[] {
    return this.#inputs.names;
  }

  free(): void {
    this.#memory.free();
  }

  /** Every block of memory has a key of its own; the inputs' guards too. */
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
