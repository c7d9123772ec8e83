/** A driver library, a compiler for it, and modules loaded from test/conformance/kernels: what a check works with. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  addressOf, ArtifactStore, CompileCache, CudaDriver, emulatorLibraryUnit, emulatorUnit, nvccUnit, readSources, snapshotSources, Toolchain,
  type Compilation, type CompileUnit, type DevicePointer, type Handle,
} from '@flashcore/runner/testing';

export type Argument = { pointer: DevicePointer } | { int32: number } | { float32: number };

export interface LaunchOptions {
  grid?: [number, number, number];
  block: [number, number, number];
  sharedBytes?: number;
}

export class Bench {
  readonly driver: CudaDriver;
  readonly #modules: Map<string, Handle>;
  /** Arguments of launches that may still run. */
  readonly #alive: unknown[] = [];

  constructor(driver: CudaDriver, modules: Map<string, Handle>) {
    this.driver = driver;
    this.#modules = modules;
  }

  module(name: string): Handle {
    return this.#modules.get(name)!;
  }

  /** Device memory with these contents. */
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
    const slots = args.map(argumentSlot);
    const parameters = BigUint64Array.from(slots, addressOf);
    this.#alive.push(slots, parameters);
    this.driver.launch({ function: handle, grid: options.grid ?? [1, 1, 1], block: options.block, sharedBytes, stream: this.driver.stream, parameters });
  }
}

function argumentSlot(argument: Argument): Buffer {
  const slot = Buffer.alloc(8);
  if ('pointer' in argument) slot.writeBigUInt64LE(argument.pointer);
  else if ('int32' in argument) slot.writeInt32LE(argument.int32);
  else slot.writeFloatLE(argument.float32);
  return slot;
}

const ENTRIES: Record<string, string[]> = {
  basics: ['indices', 'arguments', 'reverse_through_smem', 'tree_sum', 'warp_exchanges', 'count_bins', 'convert_half', 'increment'],
  tensor_cores: ['wmma_product', 'mma_product'],
  faults: ['write_far_out', 'read_misaligned', 'trap_now'],
};

export interface Images {
  library: string;
  modules: Record<string, string>;
}

/** Compiles the check kernels for a driver library ("emulator", or a path such as libcuda.so.1); files go to `folder`. */
export async function compileImages(target: string, root: string, folder: string): Promise<Images> {
  const artifacts = new ArtifactStore(join(folder, 'artifacts'));
  const cache = new CompileCache(join(folder, 'cache'), artifacts);
  const compile = async (unit: CompileUnit): Promise<string> => pathOf(artifacts, await cache.compile(unit, { signal: AbortSignal.timeout(600_000) }));
  const tools = new Toolchain();
  const simulated = target === 'emulator';
  const cxx = tools.cxx();
  const nvcc = tools.nvcc();
  if (simulated ? !cxx : !nvcc) throw new Error(`Wanted ${simulated ? 'g++ or clang++' : 'nvcc'} to compile the check kernels for ${target}; found none on PATH`);

  const emulator = join(root, 'apps/runner/emulator');
  const library = simulated ? await compile(emulatorLibraryUnit(cxx!, emulator)) : target;
  const arch = simulated ? '' : new CudaDriver(target, 0).facts.arch;
  const emulatorFiles = [
    ...readSources(join(emulator, 'include'), 'emulator/include'),
    { path: 'emulator/static_shared_limit.ld', text: readFileSync(join(emulator, 'static_shared_limit.ld'), 'utf8') },
  ];
  const modules: Record<string, string> = {};
  for (const [name, entries] of Object.entries(ENTRIES)) {
    const { files } = snapshotSources({ folder: join(root, 'test/conformance/kernels'), source: `${name}.cu`, kernelsFolder: join(root, 'kernels') });
    const common = { files, unit: `kernel/${name}.cu`, name, defines: [] };
    modules[name] = await compile(
      simulated
        ? emulatorUnit({ ...common, cxx: cxx!, emulatorFiles, entries, instrumented: false })
        : nvccUnit({ ...common, nvcc: nvcc!, arch, fastMath: false, maxRegisters: 0, keepPtx: false }),
    );
  }
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'images.json'), JSON.stringify({ library, modules } satisfies Images));
  return { library, modules };
}

function pathOf(artifacts: ArtifactStore, compilation: Compilation): string {
  const [output] = compilation.outputs;
  if (!output) throw new Error(`The check kernels do not compile:\n${compilation.lines.join('\n')}`);
  return artifacts.path(output.sha256);
}

export function openBench({ library, modules }: Images): Bench {
  const driver = new CudaDriver(library, 0);
  return new Bench(driver, new Map(Object.entries(modules).map(([name, path]) => [name, driver.loadModule(path)])));
}
