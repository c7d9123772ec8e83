import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { create } from '@bufbuild/protobuf';
import {
  ArtifactKind,
  BuildResultSchema,
  type Artifact,
  type BuildResult,
  type Finding,
  type ArtifactSchema,
} from '@flashcore/shared/contract';
import { type ResolvedVariant } from '@flashcore/shared/kernels';
import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  compileFailedFinding,
  compileTimedOutFinding,
  dynamicSmemFinding,
  missingEntryFinding,
  smemLimitFinding,
  spillFinding,
} from './build-findings.ts';
import type { AssignedBuilds } from './assigned-builds.ts';
import { clangUnit } from './clang-unit.ts';
import { keyOf, type Compilation, type CompileCache } from './compile-cache.ts';
import type { CompileUnit, OutputKind } from './compile-unit.ts';
import {
  parseClangDiagnostics,
  parseGnuDiagnostics,
  parseNvccDiagnostics,
  parseNvrtcDiagnostics,
  type CompilerDiagnostic,
} from './diagnostics.ts';
import type { Listing } from './disassembly.ts';
import { emulatorUnit } from './emulator-unit.ts';
import { entryResources, type ShapeLaunch } from './entry-resources.ts';
import type { Emulation } from './emulation.ts';
import { LOOK_FOR_RACES } from './emulator-engine.ts';
import type { HeaderTree } from './header-trees.ts';
import { nvccUnit } from './nvcc-unit.ts';
import { nvrtcUnit } from './nvrtc-unit.ts';
import { readPtxEntries, smemExcessOf, type PtxEntry } from './ptx-entries.ts';
import { parsePtxasReport, parseSmemExcess, type SmemExcess } from './ptxas-report.ts';
import { sharedBuffers } from './shared-buffers.ts';
import { flagsDigest, partsAsOne, type CompilerRun } from './compiler-runs.ts';
import { hasVariables } from './cubin-code.ts';
import { fileWith, type DeviceImage, type ImagePart } from './device-image.ts';
import { partsOf } from './entry-parts.ts';
import { codeFrame, type SourceText } from './code-frame.ts';
import { digestOf, shownPath, snapshotSources, type SnapshotFile } from './source-snapshot.ts';
import type { Compiler, Nvcc, Toolchain } from './toolchain.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import { missingCompiler } from './missing-compiler.ts';

/** A kernel to build and what to build it for. */
export interface BuildSpec {
  kernelId: string;
  /** The kernel's folder, and its translation unit in it. */
  folder: string;
  source: string;
  resolved: ResolvedVariant;
  /** nvcc's target. */
  arch: string;
  /** Build for the emulator too. */
  emulated: boolean;
  /** Every entry that the manifest can launch. */
  entries: readonly string[];
  /** Of the device that it is built for; undefined: not known. */
  multiprocessors?: number | undefined;
  /** Launches of the shapes that the job is about: what occupancy is calculated for. */
  launches: readonly ShapeLaunch[];
  /** Entries that are waited for, those of a launch together; the whole is compiled beside them. Default: all. */
  first?: readonly (readonly string[])[] | undefined;
}

export interface BuildListener {
  signal: AbortSignal;
  /** Nobody waits for it: it gets what processors others leave. */
  aside?: boolean | undefined;
  /** A line of "nvcc", "clang++" or "g++". */
  onLine?: (source: string, line: string) => void;
  /** A compiler is about to run: nothing was in the cache. */
  onStart?: (() => void) | undefined;
  /** Told of each compilation, also of one that was found in the cache, and of one that failed. */
  onCompiled?: ((unit: CompileUnit, compilation: Compilation) => void) | undefined;
}

export interface KernelBuild {
  result: BuildResult;
  findings: Finding[];
  /** What the device loads; undefined when there is none. */
  image: DeviceImage | undefined;
  /** Why there is no SASS listing where one was asked for of a kernel that compiles; undefined: none is missing. */
  sassMissing: string | undefined;
  /** SHA-256 over all sources that went into it. */
  sourceDigest: string;
  /** They themselves, as the kernel folder names them. */
  sources: SourceText[];
  /** Of a build that has the first entries alone: what it loads, and the whole, which is compiled still. */
  rest?: { parts: readonly ImagePart[]; whole: Promise<KernelBuild> };
}

const ARTIFACT_KINDS: Record<OutputKind, ArtifactKind> = {
  cubin: ArtifactKind.CUBIN,
  ptx: ArtifactKind.PTX,
  sass: ArtifactKind.SASS,
  'emulator-module': ArtifactKind.EMULATOR_MODULE,
  library: ArtifactKind.UNSPECIFIED,
};

const READ_DIAGNOSTICS = {
  nvcc: parseNvccDiagnostics,
  nvrtc: parseNvrtcDiagnostics,
  clang: parseClangDiagnostics,
  gnu: parseGnuDiagnostics,
};

/** Whose reports have what ptxas says. */
const WITH_PTXAS: readonly string[] = ['nvcc', 'nvrtc'] satisfies Compiler['name'][];

function readerOf({ compiler, outputs }: CompileUnit): keyof typeof READ_DIAGNOSTICS {
  if (compiler.name === 'nvcc' || compiler.name === 'nvrtc') return compiler.name;
  return outputs.some(({ kind }) => kind === 'ptx') ? 'clang' : 'gnu';
}

/** What mechanisms/first_entries.cuh defines. */
const ASKS_WHAT_IS_WANTED = 'FLASHCORE_WANTED';
/** nvcc's runs for the first entries, each of which has a few threads; the whole kernel's takes what they leave. */
const PARTS_AT_ONCE = Math.max(1, availableParallelism() >> 2);

type Disassemble = (cubin: string, signal: AbortSignal) => Promise<Listing>;

const compiled = (problems: readonly CompilerDiagnostic[], runs: readonly CompilerRun[]): boolean =>
  problems.length === 0 && runs.every(({ compilation }) => compilation.exitCode === 0);

interface BuildParts {
  files: SnapshotFile[];
  problems: CompilerDiagnostic[];
  runs: CompilerRun[];
  listing: Listing | undefined;
  seconds: number;
  /** Undefined for a GPU's build. */
  emulation: Emulation | undefined;
}

function imageKind(emulation: Emulation | undefined): OutputKind {
  if (!emulation) return 'cubin';
  return emulation.engine === 'ptx' ? 'ptx' : 'emulator-module';
}

interface KernelBuilderParts {
  toolchain: Toolchain;
  cache: CompileCache;
  artifacts: ArtifactStore;
  kernelsFolder: string;
  emulatorFiles: () => SnapshotFile[];
  /** What clang makes PTX with. */
  deviceHeaders: () => SnapshotFile[];
  /** What NVRTC makes PTX with, beside CUDA's headers. */
  standardHeaders: () => SnapshotFile[];
  disassemble: Disassemble;
  /** What kernels may include from the host; default: nothing. */
  headers?: () => readonly HeaderTree[];
  /** What the emulator runs kernels with, as soon as that is known. Errors: BuildTools.emulation(). */
  emulation: () => Promise<Emulation>;
  /** What another host compiled for the job; default: nothing. */
  assigned?: Pick<AssignedBuilds, 'unitOf'> | undefined;
  /** In how many parts at most the first entries of a kernel are compiled. Default: by the host's processors. */
  partsAtOnce?: number | undefined;
}

/** Compiles kernels: with nvcc where it exists; for the emulator, where it does not, with clang or the C++ compiler. */
export class KernelBuilder {
  readonly #toolchain: Toolchain;
  readonly #cache: CompileCache;
  readonly #artifacts: ArtifactStore;
  readonly #kernelsFolder: string;
  readonly #emulatorFiles: () => SnapshotFile[];
  readonly #deviceHeaders: () => SnapshotFile[];
  readonly #standardHeaders: () => SnapshotFile[];
  readonly #disassemble: Disassemble;
  readonly #emulation: () => Promise<Emulation>;
  readonly #assigned: Pick<AssignedBuilds, 'unitOf'> | undefined;
  readonly #headers: () => readonly HeaderTree[];
  readonly #partsAtOnce: number;

  constructor(parts: KernelBuilderParts) {
    this.#toolchain = parts.toolchain;
    this.#cache = parts.cache;
    this.#artifacts = parts.artifacts;
    this.#kernelsFolder = parts.kernelsFolder;
    this.#emulatorFiles = parts.emulatorFiles;
    this.#deviceHeaders = parts.deviceHeaders;
    this.#standardHeaders = parts.standardHeaders;
    this.#disassemble = parts.disassemble;
    this.#headers = parts.headers ?? (() => []);
    this.#emulation = parts.emulation;
    this.#assigned = parts.assigned;
    this.#partsAtOnce = parts.partsAtOnce ?? PARTS_AT_ONCE;
  }

  /** That a kernel does not compile is a result. Errors: COMPILER_MISSING, DISK_FULL, the signal's reason. */
  async build(spec: BuildSpec, listener: BuildListener): Promise<KernelBuild> {
    const started = performance.now();
    await this.#toolchain.askCompilers();
    const emulation = spec.emulated ? await this.#emulation() : undefined;
    const { files, problems } = snapshotSources({
      folder: spec.folder,
      source: spec.source,
      kernelsFolder: this.#kernelsFolder,
    });
    const units = problems.length > 0 ? [] : this.#units(spec, files, emulation);
    const first = this.#firstParts(spec, files, units);
    const all = async (): Promise<KernelBuild> => {
      const aside = first !== undefined || listener.aside;
      const runs = await Promise.all(units.map((unit) => this.#run(unit, { ...listener, aside })));
      const listing =
        spec.resolved.keepSass && compiled(problems, runs) ? await this.#listing(runs, listener.signal) : undefined;
      const seconds = (performance.now() - started) / 1000;
      return this.#assemble(spec, { files, problems, runs, listing, seconds, emulation });
    };
    if (!first) return all();
    const whole = all();
    // Whoever takes the whole is told, now or later.
    whole.catch(() => undefined);
    const ends = await Promise.all(
      first.map(async ({ entries, unit }) => ({ entries, run: await this.#run(unit, { signal: listener.signal }) })),
    );
    if (ends.some(({ run }) => run.compilation.exitCode !== 0)) return whole;
    const parts = ends.map(({ entries, run }) => ({ entries, path: this.#pathOf(run.compilation.outputs[0]!) }));
    // Each part would have variables of its own.
    if (parts.length > 1 && parts.some(({ path }) => hasVariables(path))) return whole;
    // The same build: as much of it as there is.
    const runs = [
      partsAsOne(
        ends.map(({ run }) => run),
        units[0]!,
      ),
    ];
    const seconds = (performance.now() - started) / 1000;
    const known = { ...spec, entries: parts.flatMap(({ entries }) => entries) };
    const build = this.#assemble(known, { files, problems, runs, listing: undefined, seconds, emulation });
    return { ...build, image: build.image && parts, rest: { parts, whole } };
  }

  /** nvcc's runs for the first entries alone; undefined where they would save nothing. */
  #firstParts(
    spec: BuildSpec,
    files: readonly SnapshotFile[],
    units: readonly CompileUnit[],
  ): { entries: string[]; unit: CompileUnit }[] | undefined {
    const { emulated, resolved } = spec;
    const nvcc = emulated ? undefined : this.#toolchain.nvcc();
    // A kernel that does not ask what is wanted is optimised whole in each run.
    const asks = files.some(({ text }) => text.includes(ASKS_WHAT_IS_WANTED));
    const groups = partsOf(spec.first ?? [], asks ? this.#partsAtOnce : 1);
    const count = groups.flat().length;
    if (count === 0 || count >= spec.entries.length || units.length !== 1 || !nvcc) return undefined;
    if (resolved.keepPtx || resolved.keepSass || this.#cache.find(keyOf(units[0]!))) return undefined;
    return groups.map((entries) => ({ entries, unit: this.#nvccUnitBy(nvcc, spec, files, { first: entries }) }));
  }

  #pathOf({ sha256 }: Compilation['outputs'][number]): string {
    return this.#artifacts.path(sha256);
  }

  /** Not kept in the compile cache: its key is the compiler's, and a listing takes half a second. */
  async #listing(runs: readonly CompilerRun[], signal: AbortSignal): Promise<Listing> {
    const cubin = runs.flatMap(({ compilation }) => compilation.outputs).find(({ kind }) => kind === 'cubin');
    return cubin
      ? this.#disassemble(this.#artifacts.path(cubin.sha256), signal)
      : { missing: 'no nvcc on this host, so no machine code' };
  }

  /** A module that looks for data races; undefined when it does not compile. */
  async buildInstrumented(spec: BuildSpec, listener: BuildListener): Promise<string | undefined> {
    if ((await this.#emulation()).engine === 'ptx') {
      const { image } = await this.build(spec, listener);
      const ptx = image && Buffer.concat([Buffer.from(LOOK_FOR_RACES), readFileSync(fileWith(image, spec.entries))]);
      return ptx && this.#artifacts.path(this.#artifacts.put(ptx));
    }
    const { files } = snapshotSources({ folder: spec.folder, source: spec.source, kernelsFolder: this.#kernelsFolder });
    const { compilation } = await this.#run(this.#emulatorUnit(spec, files, true), listener);
    return compilation.outputs[0] && this.#artifacts.path(compilation.outputs[0].sha256);
  }

  /** `emulation`: undefined for a GPU's build. */
  #units(spec: BuildSpec, files: readonly SnapshotFile[], emulation: Emulation | undefined): CompileUnit[] {
    const runsPtx = emulation?.engine === 'ptx';
    const gpu = this.#nvccUnit(spec, files, { runsPtx, lacksNvcc: emulation?.nvccProblem !== undefined });
    if (!gpu && !spec.emulated) throw missingCompiler('nvcc');
    if (!runsPtx) return [...(gpu ? [gpu] : []), ...(spec.emulated ? [this.#emulatorUnit(spec, files, false)] : [])];
    return [gpu ?? this.#ptxUnit(spec, files, emulation)];
  }

  /** PTX where no nvcc makes it. */
  #ptxUnit(
    { arch, source, kernelId, resolved }: BuildSpec,
    files: readonly SnapshotFile[],
    { frontEnd }: Emulation,
  ): CompileUnit {
    const common = {
      arch,
      files,
      unit: `kernel/${source}`,
      name: kernelId,
      defines: resolved.defines,
      fastMath: resolved.fastMath,
      headers: this.#headers(),
    };
    const nvrtc = frontEnd === 'nvrtc' ? this.#toolchain.nvrtc() : undefined;
    const { maxRegisters } = resolved;
    if (nvrtc) return nvrtcUnit({ ...common, nvrtc, maxRegisters, standardHeaders: this.#standardHeaders() });
    const clang = this.#toolchain.clang();
    if (!clang) throw missingCompiler('ptx');
    return clangUnit({ ...common, clang, deviceHeaders: this.#deviceHeaders() });
  }

  /** nvcc's run: the one that another host has done for this one, or else this host's own. */
  #nvccUnit(
    spec: BuildSpec,
    files: readonly SnapshotFile[],
    { runsPtx, lacksNvcc }: { runsPtx: boolean; lacksNvcc: boolean },
  ): CompileUnit | undefined {
    const unitBy = (nvcc: Nvcc): CompileUnit => this.#nvccUnitBy(nvcc, spec, files, { runsPtx });
    const done = this.#assigned?.unitOf(unitBy);
    if (done) return done;
    const nvcc = lacksNvcc ? undefined : this.#toolchain.nvcc();
    return nvcc && unitBy(nvcc);
  }

  #nvccUnitBy(
    nvcc: Nvcc,
    { arch, source, kernelId, resolved, entries }: BuildSpec,
    files: readonly SnapshotFile[],
    { first, runsPtx = false }: { first?: readonly string[]; runsPtx?: boolean },
  ): CompileUnit {
    return nvccUnit({
      nvcc,
      arch,
      files,
      unit: `kernel/${source}`,
      name: kernelId,
      defines: resolved.defines,
      fastMath: resolved.fastMath,
      maxRegisters: resolved.maxRegisters,
      keepPtx: resolved.keepPtx || runsPtx,
      headers: this.#headers(),
      entries: entries.length,
      first,
    });
  }

  #emulatorUnit(spec: BuildSpec, files: readonly SnapshotFile[], instrumented: boolean): CompileUnit {
    const cxx = this.#toolchain.cxx();
    if (!cxx) throw missingCompiler('g++');
    return emulatorUnit({
      cxx,
      files,
      emulatorFiles: this.#emulatorFiles(),
      unit: `kernel/${spec.source}`,
      name: spec.kernelId,
      defines: spec.resolved.defines,
      entries: spec.entries,
      instrumented,
    });
  }

  async #run(unit: CompileUnit, { signal, onLine, onStart, onCompiled, aside }: BuildListener): Promise<CompilerRun> {
    const source = unit.compiler.name;
    const compilation = await this.#cache.compile(unit, {
      signal,
      onLine: onLine && ((line) => onLine(source, line)),
      onStart,
      aside,
    });
    onCompiled?.(unit, compilation);
    return { unit, compilation, diagnostics: READ_DIAGNOSTICS[readerOf(unit)](compilation.lines) };
  }

  #assemble(spec: BuildSpec, parts: BuildParts): KernelBuild {
    const { files, problems, runs, listing, seconds, emulation } = parts;
    const assembled = runs.find(({ unit }) => WITH_PTXAS.includes(unit.compiler.name));
    const entries = assembled ? parsePtxasReport(assembled.compilation.lines) : [];
    const inPtx = assembled ? undefined : this.#entriesInPtx(runs);
    const excess = [
      ...runs.flatMap(({ compilation }) => parseSmemExcess(compilation.lines)),
      ...smemExcessOf(inPtx ?? []),
    ];
    const succeeded = compiled(problems, runs) && excess.length === 0;
    const resources = entryResources(entries, spec.launches, spec.multiprocessors);
    const outputs = runs.flatMap(({ compilation }) => compilation.outputs);
    const sources = files.map(({ path, text }): SourceText => ({ path: shownPath(path), text }));
    const loaded = outputs.find(({ kind }) => kind === imageKind(emulation));
    const result = create(BuildResultSchema, {
      buildId: buildIdOf(spec, files, runs),
      succeeded,
      cacheHit: runs.length > 0 && runs.every(({ compilation }) => compilation.cacheHit),
      seconds,
      runs: runs.map(({ unit, compilation }) => ({
        compiler: unit.compiler.name,
        version: unit.compiler.version,
        target: unit.target,
        arguments: unit.stages[0]![0]!.arguments,
        seconds: compilation.seconds,
        exitCode: compilation.exitCode,
        cacheHit: compilation.cacheHit,
        hostName: compilation.host ?? '',
      })),
      entries: resources,
      entriesMissing: entriesMissing(resources.length, {
        assembled,
        problems,
        succeeded,
        nvccProblem: emulation?.nvccProblem,
      }),
      artifacts: [
        ...outputs.map(artifactOf),
        ...this.#keepListing(spec, listing),
        ...files.map((file) => this.#keepSource(file)),
      ],
      diagnostics: [...problems, ...runs.flatMap(({ diagnostics }) => diagnostics)].map((diagnostic) => ({
        ...diagnostic,
        frame: codeFrame(sources, diagnostic),
      })),
      arch: spec.arch,
      flagsDigest: flagsDigest(runs),
      smemRefusedBytes: excess[0]?.bytes ?? 0,
    });
    const findings = findingsOf(spec, {
      files,
      problems,
      runs,
      excess,
      found: (assembled ? entries : inPtx)?.map(({ entry }) => entry),
      result,
    });
    const sassMissing = listing && 'missing' in listing ? listing.missing : undefined;
    return {
      result,
      findings,
      image: succeeded && loaded ? this.#artifacts.path(loaded.sha256) : undefined,
      sassMissing,
      sourceDigest: digestOf(files),
      sources,
    };
  }

  /** What clang's PTX has, where there is no ptxas that tells; undefined: no PTX was made. */
  #entriesInPtx(runs: readonly CompilerRun[]): PtxEntry[] | undefined {
    const ptx = runs.flatMap(({ compilation }) => compilation.outputs).find(({ kind }) => kind === 'ptx');
    return ptx && readPtxEntries(readFileSync(this.#artifacts.path(ptx.sha256), 'utf8'));
  }

  #keepListing({ kernelId, arch }: BuildSpec, listing: Listing | undefined): MessageInitShape<typeof ArtifactSchema>[] {
    if (!listing || 'missing' in listing) return [];
    const { text } = listing;
    return [
      {
        sha256: this.#artifacts.put(text),
        kind: ArtifactKind.SASS,
        fileName: `${kernelId}.${arch}.sass`,
        sizeBytes: BigInt(text.byteLength),
      } satisfies Partial<Artifact>,
    ];
  }

  /** The source stays with the result: what two jobs differ in can be shown whatever became of the folder. */
  #keepSource({ path, text }: SnapshotFile): MessageInitShape<typeof ArtifactSchema> {
    const bytes = Buffer.from(text);
    return {
      sha256: this.#artifacts.put(bytes),
      kind: ArtifactKind.SOURCE,
      fileName: shownPath(path),
      sizeBytes: BigInt(bytes.byteLength),
    } satisfies Partial<Artifact>;
  }
}

interface FindingParts {
  files: SnapshotFile[];
  problems: CompilerDiagnostic[];
  runs: CompilerRun[];
  excess: SmemExcess[];
  /** Entries of the compiled code; undefined: not known. */
  found: string[] | undefined;
  result: BuildResult;
}

function findingsOf(spec: BuildSpec, parts: FindingParts): Finding[] {
  const { files, problems, runs, excess, found, result } = parts;
  const timedOut = runs.find(({ compilation }) => compilation.timedOut);
  if (timedOut) return [compileTimedOutFinding(timedOut.unit.compiler.name, timedOut.compilation.seconds)];
  if (excess[0])
    return [
      smemLimitFinding(excess[0], sharedBuffers(files, { ...spec.resolved.parameters, ...spec.resolved.constants })),
    ];
  if (!result.succeeded)
    return [compileFailedFinding([...problems, ...runs.flatMap(({ diagnostics }) => diagnostics)])];
  const missing = found ? spec.entries.filter((entry) => !found.includes(entry)) : [];
  if (missing.length > 0) return [missingEntryFinding(missing, found!)];
  return result.entries.flatMap((entry) =>
    [dynamicSmemFinding(entry), spillFinding(entry)].filter((finding) => finding !== undefined),
  );
}

interface BuildEnd {
  assembled: CompilerRun | undefined;
  problems: readonly CompilerDiagnostic[];
  succeeded: boolean;
  nvccProblem: string | undefined;
}

function entriesMissing(count: number, { assembled, problems, succeeded, nvccProblem }: BuildEnd): string | undefined {
  if (count > 0) return undefined;
  if (problems.length > 0) return 'nothing was compiled';
  if (!assembled) return nvccProblem ?? 'no nvcc on this host';
  return succeeded ? 'the compiled code has none of the entries that the manifest launches' : 'it does not compile';
}

function artifactOf({
  sha256,
  kind,
  fileName,
  sizeBytes,
}: Compilation['outputs'][number]): MessageInitShape<typeof ArtifactSchema> {
  return { sha256, kind: ARTIFACT_KINDS[kind], fileName, sizeBytes: BigInt(sizeBytes) } satisfies Partial<Artifact>;
}

/** Digest of all that goes into the build. */
function buildIdOf(spec: BuildSpec, files: readonly SnapshotFile[], runs: readonly CompilerRun[]): string {
  const keys = runs.map(({ compilation }) => compilation.key).sort();
  return createHash('sha256')
    .update(JSON.stringify([spec.kernelId, spec.arch, keys, keys.length > 0 ? '' : digestOf(files)]))
    .digest('hex');
}
