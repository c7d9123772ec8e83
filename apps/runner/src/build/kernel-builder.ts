import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import pLimit from 'p-limit';
import { isCubinSource, isPtxSource, isTritonSource, targetIn, tritonMemory } from '@flashcore/shared/kernels';
import type { DeviceImage } from '../../worker/messages/launchable.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import type { BuildListener, CompileCache } from './compile-cache.ts';
import type { CompileUnit } from './compile-unit.ts';
import { compiled, KernelAssembly, type CompiledKernel, type KernelBuild } from './compiled-kernel.ts';
import type { CompilerRun } from './compiler-runs.ts';
import {
  parseClangDiagnostics,
  parseGnuDiagnostics,
  parseNvccDiagnostics,
  parseNvrtcDiagnostics,
  parseTritonDiagnostics,
} from './diagnostics.ts';
import { cubinProblems } from './cubin-source.ts';
import { joinedListing, type Listing } from './disassembly.ts';
import type { Emulation } from './emulation.ts';
import { compileApart } from './entries-apart.ts';
import { addressBanks } from './kept-state.ts';
import { KernelUnits, type BuildSpec, type KernelCompilation, type KernelUnitsParts } from './kernel-units.ts';
import { missingCompiler } from './compilers.ts';
import { snapshotSources, type SnapshotFile } from './source-snapshot.ts';
import { tritonUnit } from './triton-unit.ts';

/** First line of a PTX image that tells the engine to check for races (libs/emulator/ptx/parse.cpp). */
const LOOK_FOR_RACES = '// flashcore: races\n';

/**
 * First line of PTX that this runner did not compile from CUDA C++: the engine then refuses to load an entry with an
 * instruction that it lacks. PTX from CUDA C++ may be loaded, because such an instruction may be in a branch that no
 * thread takes.
 */
const REFUSE_WHAT_IS_NOT_CARRIED = '// flashcore: complete\n';

const READ_DIAGNOSTICS = {
  nvcc: parseNvccDiagnostics,
  nvrtc: parseNvrtcDiagnostics,
  clang: parseClangDiagnostics,
  gnu: parseGnuDiagnostics,
  triton: parseTritonDiagnostics,
};

function readerOf({ compiler, outputs }: CompileUnit): keyof typeof READ_DIAGNOSTICS {
  if (compiler.name === 'nvcc' || compiler.name === 'nvrtc' || compiler.name === 'triton') return compiler.name;
  return outputs.some(({ kind }) => kind === 'ptx') ? 'clang' : 'gnu';
}

interface KernelBuilderParts extends KernelUnitsParts {
  cache: CompileCache;
  artifacts: ArtifactStore;
  kernelsFolder: string;
  /** The text of tools/compile_triton.py. */
  tritonScript: () => string;
  disassemble: (cubin: string, signal: AbortSignal) => Promise<Listing>;
  /** The emulator's engine and front end, as soon as they are known. Errors: as BuildTools.emulation(). */
  emulation: () => Promise<Emulation>;
}

/** The part of a CompiledKernel that is known before a compiler runs. */
type Prepared = Omit<CompiledKernel, 'runs' | 'listing' | 'seconds'> & { started: number };

function withPaths(image: DeviceImage, pathOf: (path: string) => string): DeviceImage {
  if (typeof image === 'string') return pathOf(image);
  return Object.fromEntries(
    Object.entries(image).map(([entry, place]) => [
      entry,
      typeof place === 'string' ? pathOf(place) : { ...place, path: pathOf(place.path) },
    ]),
  );
}

/**
 * Compiles kernels with nvcc if it is installed. Without nvcc, kernels for the emulator are compiled with NVRTC, clang
 * or g++.
 */
export class KernelBuilder {
  readonly #parts: KernelBuilderParts;
  readonly #units: KernelUnits;
  readonly #assembly: KernelAssembly;

  constructor(parts: KernelBuilderParts) {
    this.#parts = parts;
    this.#units = new KernelUnits(parts);
    this.#assembly = new KernelAssembly(parts.artifacts);
  }

  /**
   * Builds a kernel. A kernel that does not compile gives a result and not an error. Errors: COMPILER_MISSING,
   * DISK_FULL, the signal's reason.
   */
  async build(spec: BuildSpec, listener: BuildListener): Promise<KernelBuild> {
    const build = await this.#build(spec, listener);
    const foreign = spec.emulated && (isPtxSource(spec.source) || isTritonSource(spec.source));
    if (!foreign || !build.image) return build;
    return { ...build, image: this.#headed(build.image, REFUSE_WHAT_IS_NOT_CARRIED) };
  }

  /** Adds a first line to the PTX. The PTX engine reads this line. */
  #headed(image: DeviceImage, line: string): DeviceImage {
    const { artifacts } = this.#parts;
    return withPaths(image, (path) =>
      artifacts.path(artifacts.put(Buffer.concat([Buffer.from(line), readFileSync(path)]))),
    );
  }

  async #build(spec: BuildSpec, listener: BuildListener): Promise<KernelBuild> {
    const started = performance.now();
    const { toolchain, kernelsFolder } = this.#parts;
    await toolchain.askCompilers();
    const emulation = spec.emulated ? await this.#parts.emulation() : undefined;
    const { files, problems: inSources } = snapshotSources({ folder: spec.folder, source: spec.source, kernelsFolder });
    const problems = [...inSources, ...cubinProblems(files, spec.arch)];
    if (isTritonSource(spec.source) && problems.length === 0)
      return this.#buildTriton(spec, files, emulation, listener);
    const { units, apart }: KernelCompilation =
      problems.length > 0 ? { units: [] } : this.#units.of(spec, files, emulation);
    const kernel: Prepared = { spec, files, problems, units, emulation, started };
    if (apart) return this.#buildApart(kernel, apart, listener);
    return this.#assembled(kernel, await Promise.all(units.map((unit) => this.#run(unit, listener))), listener);
  }

  /** Triton makes PTX, which is then compiled like a kernel whose source is PTX. */
  async #buildTriton(
    spec: BuildSpec,
    files: SnapshotFile[],
    emulation: Emulation | undefined,
    listener: BuildListener,
  ): Promise<KernelBuild> {
    const started = performance.now();
    const { toolchain, artifacts, tritonScript } = this.#parts;
    const triton = await toolchain.askTriton();
    if (!triton) throw missingCompiler('triton');
    const unit = tritonUnit({ triton, spec, files, script: tritonScript() });
    const kernel: Prepared = { spec, files, problems: [], units: [unit], emulation, started };
    const run = await this.#run(unit, listener);
    const [made] = run.compilation.outputs;
    if (!made) return this.#assembled(kernel, [run], listener);
    const text = readFileSync(artifacts.path(made.sha256), 'utf8');
    const target = targetIn(text);
    const ptx: BuildSpec = {
      ...spec,
      // Triton makes PTX for sm_90a if the architecture is sm_90, and only sm_90a assembles it.
      ...(target?.replace(/[af]$/, '') === spec.arch && { arch: target }),
      source: 'kernel.ptx',
      memory: new Map(spec.triton!.map(({ entry, symbol }) => [entry, tritonMemory(text, symbol)])),
    };
    const assembling = this.#units
      .of(ptx, [{ path: 'kernel/kernel.ptx', text }], emulation)
      .units.filter(({ stages }) => stages.length > 0);
    const runs = await Promise.all(assembling.map((each) => this.#run(each, listener)));
    // If an assembler ran, its run also outputs the PTX, so the first run's output is left out.
    const first = runs.length > 0 ? { ...run, compilation: { ...run.compilation, outputs: [] } } : run;
    return this.#assembled({ ...kernel, spec: ptx, units: [unit, ...assembling] }, [first, ...runs], listener);
  }

  /** Returns once the first entries are compiled. The build's `complete` resolves when the others are compiled too. */
  async #buildApart(
    kernel: Prepared,
    unitOf: (entries: readonly string[]) => CompileUnit,
    listener: BuildListener,
  ): Promise<KernelBuild> {
    const { spec, units } = kernel;
    const { first, all } = compileApart({
      entries: spec.entries,
      first: spec.first ?? spec.entries,
      unitOf,
      whole: units[0]!,
      run: (unit, each) => this.#run(unit, each),
      pathOf: ({ sha256 }) => this.#parts.artifacts.path(sha256),
      listener,
    });
    const complete = all.then((runs) => this.#assembled(kernel, runs, listener));
    // Prevents an unhandled rejection; whoever awaits `complete` still gets the error.
    complete.catch(() => undefined);
    const runs = await first;
    if (!runs) return complete;
    const known = { ...kernel, spec: { ...spec, entries: spec.first! } };
    return { ...(await this.#assembled(known, runs, listener)), complete };
  }

  async #assembled(kernel: Prepared, runs: CompilerRun[], { signal }: BuildListener): Promise<KernelBuild> {
    const wantsListing = kernel.spec.resolved.keepSass && compiled(kernel.problems, runs);
    const listing = wantsListing ? await this.#listing(runs, signal) : undefined;
    const code = listing ?? (this.#hasSmallVariables(kernel, runs) ? await this.#listing(runs, signal) : undefined);
    const seconds = (performance.now() - kernel.started) / 1000;
    return this.#assembly.build({ ...kernel, runs, listing, code, seconds });
  }

  #hasSmallVariables({ spec }: Prepared, runs: readonly CompilerRun[]): boolean {
    const { artifacts } = this.#parts;
    const cubins = isCubinSource(spec.source) ? runs.flatMap(({ compilation }) => compilation.outputs) : [];
    return cubins.some(({ sha256 }) => addressBanks(readFileSync(artifacts.path(sha256))) !== undefined);
  }

  /** The listing is not in the compile cache, whose key covers only the compilation. Making it takes half a second. */
  async #listing(runs: readonly CompilerRun[], signal: AbortSignal): Promise<Listing> {
    const { artifacts, disassemble } = this.#parts;
    const cubins = runs.flatMap(({ compilation }) => compilation.outputs).filter(({ kind }) => kind === 'cubin');
    if (cubins.length === 0) return { missing: 'no nvcc on this host, so no machine code' };
    const limit = pLimit(availableParallelism());
    const listings = await Promise.all(
      cubins.map(({ sha256 }) => limit(() => disassemble(artifacts.path(sha256), signal))),
    );
    return joinedListing(listings);
  }

  /** An image that looks for data races; undefined if the kernel does not compile. */
  async buildInstrumented(spec: BuildSpec, listener: BuildListener): Promise<DeviceImage | undefined> {
    const { artifacts, kernelsFolder } = this.#parts;
    if ((await this.#parts.emulation()).engine === 'ptx') {
      // Builds for the emulator have all entries in one file.
      const { image } = await this.build(spec, listener);
      return image && this.#headed(image, LOOK_FOR_RACES);
    }
    const { files } = snapshotSources({ folder: spec.folder, source: spec.source, kernelsFolder });
    const { compilation } = await this.#run(this.#units.module(spec, files, { instrumented: true }), listener);
    return compilation.outputs[0] && artifacts.path(compilation.outputs[0].sha256);
  }

  async #run(
    unit: CompileUnit,
    { signal, onLine, onStart, onWait, onCompiled, aside }: BuildListener,
  ): Promise<CompilerRun> {
    const source = unit.compiler.name;
    const compilation = await this.#parts.cache.compile(unit, {
      signal,
      onLine: onLine && ((line) => onLine(source, line)),
      onStart,
      onWait,
      aside,
    });
    onCompiled?.(unit, compilation);
    return { unit, compilation, diagnostics: READ_DIAGNOSTICS[readerOf(unit)](compilation.lines) };
  }
}
