/**
 * The environment of a check: a driver library, a compiler for it, and modules loaded from test/conformance/kernels.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  addressOf,
  ArtifactStore,
  CompileCache,
  CudaDriver,
  chooseVectorPath,
  emulatorLibraryUnit,
  hostProcessorFeatures,
  emulatorUnit,
  nvccUnit,
  SharedBuilds,
  readSources,
  snapshotSources,
  Toolchain,
  type Compilation,
  type CompileUnit,
  type DevicePointer,
  type Handle,
} from '@flashcore/runner/testing';

export type Argument = { pointer: DevicePointer } | { int32: number } | { float32: number } | { tensorMap: TensorMap };

/** A CUtensorMap of an fp16 tensor with the 128-byte swizzle; extents and box innermost first, strides in bytes. */
export interface TensorMap {
  address: DevicePointer;
  dimensions: number[];
  strides: number[];
  box: number[];
}

export interface LaunchOptions {
  grid?: [number, number, number];
  block: [number, number, number];
  sharedBytes?: number;
}

export class Bench {
  readonly driver: CudaDriver;
  readonly #modules: Map<string, Handle>;
  /** Arguments of launches that may still be running. */
  readonly #alive: unknown[] = [];

  constructor(driver: CudaDriver, modules: Map<string, Handle>) {
    this.driver = driver;
    this.#modules = modules;
  }

  module(name: string): Handle {
    return this.#modules.get(name)!;
  }

  /** Allocates device memory and copies these values to it. */
  upload(values: NodeJS.ArrayBufferView): DevicePointer {
    const address = this.driver.allocate(values.byteLength);
    this.driver.upload(address, values);
    return address;
  }

  download<T extends NodeJS.ArrayBufferView>(into: T, from: DevicePointer): T {
    this.driver.synchronize();
    this.driver.download(into, from);
    return into;
  }

  enqueue(module: string, entry: string, args: Argument[], options: LaunchOptions): void {
    const sharedBytes = options.sharedBytes ?? 0;
    const handle = this.driver.function(this.module(module), entry, { sharedBytes, cluster: false });
    const slots = args.map((argument) =>
      'tensorMap' in argument ? this.#tensorMap(argument.tensorMap) : argumentSlot(argument),
    );
    const parameters = BigUint64Array.from(slots, addressOf);
    this.#alive.push(slots, parameters);
    this.driver.launch({
      function: handle,
      grid: options.grid ?? [1, 1, 1],
      block: options.block,
      sharedBytes,
      stream: this.driver.stream,
      parameters,
    });
  }

  #tensorMap(map: TensorMap): Buffer {
    const block = Buffer.alloc(TENSOR_MAP_BYTES + TENSOR_MAP_ALIGNMENT);
    const offset = Number(-addressOf(block) & BigInt(TENSOR_MAP_ALIGNMENT - 1));
    const slot = block.subarray(offset, offset + TENSOR_MAP_BYTES);
    this.driver.encodeTensorMap(slot, { ...map, dtype: 'fp16', swizzle: SWIZZLE_128B });
    return slot;
  }
}

const TENSOR_MAP_BYTES = 128;
const TENSOR_MAP_ALIGNMENT = 64;
const SWIZZLE_128B = 3;

function argumentSlot(argument: Exclude<Argument, { tensorMap: TensorMap }>): Buffer {
  const slot = Buffer.alloc(8);
  if ('pointer' in argument) slot.writeBigUInt64LE(argument.pointer);
  else if ('int32' in argument) slot.writeInt32LE(argument.int32);
  else slot.writeFloatLE(argument.float32);
  return slot;
}

/** The kernel sources of test/conformance/kernels by name, and which entries the suite launches from each. */
export interface Suite {
  [source: string]: {
    entries: string[];
    /** The architecture that the kernel needs; default: any. */ needs?: 'sm_90' | 'sm_90a';
  };
}

const CHECKS: Suite = {
  basics: {
    entries: [
      'indices',
      'arguments',
      'reverse_through_smem',
      'tree_sum',
      'warp_exchanges',
      'count_bins',
      'convert_half',
      'increment',
    ],
  },
  tensor_cores: { entries: ['wmma_product', 'mma_product'] },
  faults: { entries: ['write_far_out', 'read_misaligned', 'trap_now'] },
};

export interface Images {
  library: string;
  modules: Record<string, string>;
}

/** A target in place of a driver library's path: the emulator with its PTX engine, compiled by this program. */
export const PTX_ENGINE = 'emulator-ptx';

/**
 * Compiles kernels for a driver library ("emulator", PTX_ENGINE, or a path such as libcuda.so.1). images.json is
 * written to `folder`, and so are compiled files unless FLASHCORE_CONFORMANCE_CACHE names another folder for them.
 * Libraries in FLASHCORE_LIBRARY_CACHE are not compiled again. Kernels that the device cannot run are left out.
 */
export async function compileImages(
  target: string,
  root: string,
  folder: string,
  suite: Suite = CHECKS,
): Promise<Images> {
  const compiled = process.env['FLASHCORE_CONFORMANCE_CACHE'] ?? folder;
  const artifacts = new ArtifactStore(join(compiled, 'artifacts'));
  const shared = process.env['FLASHCORE_LIBRARY_CACHE'];
  const cache = new CompileCache(join(compiled, 'cache'), artifacts, {
    others: shared === undefined ? [] : [new SharedBuilds(shared)],
  });
  const compile = async (unit: CompileUnit, kind?: 'ptx'): Promise<string> =>
    pathOf(artifacts, await cache.compile(unit, { signal: AbortSignal.timeout(600_000) }), kind);
  const tools = new Toolchain();
  await tools.askCompilers();
  const simulated = target === 'emulator';
  // A library with the PTX engine gets PTX, which nvcc produces before it assembles the kernels.
  const engine = target === PTX_ENGINE || target.endsWith('libcuda_emu.so');
  const cxx = tools.cxx();
  const nvcc = tools.nvcc();
  if (simulated ? !cxx : !nvcc)
    throw new Error(
      `Wanted ${simulated ? 'g++ or clang++' : 'nvcc'} to compile the check kernels for ${target}; found none on PATH`,
    );

  const emulator = join(root, 'libs/emulator');
  const vectors = chooseVectorPath('auto', hostProcessorFeatures());
  const compiles = simulated || target === PTX_ENGINE;
  const library = compiles
    ? await compile(emulatorLibraryUnit(cxx!, emulator, { engine: simulated ? 'fibres' : 'ptx', vectors }))
    : target;
  const arch = archOf(target, { simulated, engine });
  const carries = (needs: 'sm_90' | 'sm_90a') => engine || hasArch(arch, needs);
  const emulatorFiles = [
    ...readSources(join(emulator, 'include'), 'emulator/include'),
    { path: 'emulator/static_shared_limit.ld', text: readFileSync(join(emulator, 'static_shared_limit.ld'), 'utf8') },
  ];
  const modules: Record<string, string> = {};
  for (const [name, { entries, needs }] of Object.entries(suite)) {
    if (needs && !carries(needs)) continue;
    const { files } = snapshotSources({
      folder: join(root, 'test/conformance/kernels'),
      source: `${name}.cu`,
      kernelsFolder: join(root, 'kernels'),
    });
    const common = { files, unit: `kernel/${name}.cu`, name, defines: [] };
    modules[name] = await compile(
      simulated
        ? emulatorUnit({ ...common, cxx: cxx!, emulatorFiles, entries, instrumented: false })
        : nvccUnit({ ...common, nvcc: nvcc!, arch: needs ?? arch, fastMath: false, maxRegisters: 0, keepPtx: engine }),
      engine ? 'ptx' : undefined,
    );
  }
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'images.json'), JSON.stringify({ library, modules } satisfies Images));
  return { library, modules };
}

function archOf(target: string, { simulated, engine }: { simulated: boolean; engine: boolean }): string {
  if (simulated) return '';
  return engine ? EMULATED_ARCH : new CudaDriver(target, 0).facts.arch;
}

/**
 * The architecture that the PTX engine's device reports. A build for sm_90 runs with a Hopper's limits on any device.
 */
const EMULATED_ARCH = 'sm_89';

/** The fibre engine has no architecture. It runs code for sm_90, except for code that needs sm_90a. */
function hasArch(arch: string, needs: 'sm_90' | 'sm_90a'): boolean {
  if (arch === '') return needs === 'sm_90';
  return needs === 'sm_90' ? Number(arch.slice(3)) >= 90 : arch === 'sm_90';
}

function pathOf(artifacts: ArtifactStore, compilation: Compilation, kind?: 'ptx'): string {
  const output = compilation.outputs.find((each) => kind === undefined || each.kind === kind);
  if (!output) throw new Error(`The check kernels do not compile:\n${compilation.lines.join('\n')}`);
  return artifacts.path(output.sha256);
}

export function openBench({ library, modules }: Images): Bench {
  const driver = new CudaDriver(library, 0);
  return new Bench(driver, new Map(Object.entries(modules).map(([name, path]) => [name, driver.loadModule(path)])));
}

/** A test of one function of kernels/primitives: its inputs and the expected output. */
export interface PrimitiveCase {
  /** Name of the function, followed by the name of the case if the function has several cases. */
  name: string;
  instruction: string;
  source: string;
  entry: string;
  threads: number;
  ctas?: number;
  inputs: Uint8Array[];
  /** Passes the first input as a tensor map rather than a pointer. */
  tensorMap?: Omit<TensorMap, 'address'>;
  outputBytes: number;
  /** Either the exact bits of the output, or a bound on an approximation's error. */
  rule: { bits: Uint8Array } | Bound;
}

/** `errorOf` returns the error of an output divided by the error that the definition allows. A value up to 1 passes. */
export interface Bound {
  text: string;
  errorOf(output: Uint8Array): number;
}
