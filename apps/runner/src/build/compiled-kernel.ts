/** Assembles compiler output into a job's build result and the image that a device loads. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  ArtifactKind,
  BuildResultSchema,
  type Artifact,
  type ArtifactSchema,
  type BuildResult,
  type CompilerRunSchema,
  type Finding,
} from '@flashcore/shared/contract';
import { isCubinSource } from '@flashcore/shared/kernels';
import type { DeviceImage } from '../../worker/messages/launchable.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import {
  compileFailedFinding,
  compileTimedOutFinding,
  dynamicSmemFinding,
  missingEntryFinding,
  registerFileFinding,
  smemLimitFinding,
  spillFinding,
  wrongSpellingFinding,
} from './build-findings.ts';
import { argumentFinding } from './argument-findings.ts';
import { codeFrame, type SourceText, type CompilerDiagnostic } from './diagnostics.ts';
import { keyOf, type Compilation } from './compile-cache.ts';
import type { CompileUnit, OutputKind } from './compile-unit.ts';
import { flagsDigest, partsAsOne, type CompilerRun } from './compiler-runs.ts';
import type { Listing } from './disassembly.ts';
import type { Emulation } from './emulation.ts';
import { entryResources } from './entry-resources.ts';
import type { BuildSpec } from './kernel-units.ts';
import { stateInCubin, stateInForeignCubin, stateInPtx } from './kept-state.ts';
import { cubinEntries } from './cubin-source.ts';
import { cubinParameters, ptxParameters, type EntryParameters } from './entry-parameters.ts';
import { hasTensorInstruction, mayUseTensorCores, readPtxEntries, smemExcessOf, type PtxEntry } from './ptx-entries.ts';
import { parsePtxasReport, parseSmemExcess, type PtxasEntry, type SmemExcess } from './ptxas-report.ts';
import { sharedBuffers } from './shared-buffers.ts';
import { digestOf, shownPath, type SnapshotFile } from './source-snapshot.ts';
import { isMarker, SPELLING_FILE, symbolsOfSpelled } from './spelled-entries.ts';
import type { Compiler } from './compilers.ts';

export interface KernelBuild {
  result: BuildResult;
  findings: Finding[];
  /** The image that the device loads; undefined if there is none. */
  image: DeviceImage | undefined;
  /**
   * Why the requested SASS listing of a kernel that compiles is missing; undefined if it is there or was not requested.
   */
  sassMissing: string | undefined;
  /** Variables in device memory, and functions that allocate it: state that a launch could leave to a later one. */
  keptState: string[];
  /** SHA-256 over all sources of the build. */
  sourceDigest: string;
  /** The sources, with their paths as the kernel folder names them. */
  sources: SourceText[];
  /**
   * Set if this build has only the first entries. Resolves to the build with all entries, once the others are compiled.
   */
  complete?: Promise<KernelBuild>;
}

/** The compiler output for a kernel. */
export interface CompiledKernel {
  spec: BuildSpec;
  files: SnapshotFile[];
  /** Problems found in the sources before any compiler runs. */
  problems: CompilerDiagnostic[];
  /** The units that compile the whole kernel, whether or not entries were compiled separately. */
  units: readonly CompileUnit[];
  runs: CompilerRun[];
  listing: Listing | undefined;
  /** The listing that shows which variables of a cubin made elsewhere are unused. */
  code?: Listing | undefined;
  seconds: number;
  /** undefined for a GPU's build. */
  emulation: Emulation | undefined;
}

const ARTIFACT_KINDS: Record<OutputKind, ArtifactKind> = {
  cubin: ArtifactKind.CUBIN,
  ptx: ArtifactKind.PTX,
  sass: ArtifactKind.SASS,
  'emulator-module': ArtifactKind.EMULATOR_MODULE,
  library: ArtifactKind.UNSPECIFIED,
};

/** Compilers whose reports contain ptxas's output. */
const WITH_PTXAS: readonly string[] = ['nvcc', 'nvrtc'] satisfies Compiler['name'][];

export const compiled = (problems: readonly CompilerDiagnostic[], runs: readonly CompilerRun[]): boolean =>
  problems.length === 0 && runs.every(({ compilation }) => compilation.exitCode === 0);

function imageKind(emulation: Emulation | undefined): OutputKind {
  if (!emulation) return 'cubin';
  return emulation.engine === 'ptx' ? 'ptx' : 'emulator-module';
}

/** Builds the result, and keeps sources, listing and compiler output as artifacts. */
export class KernelAssembly {
  readonly #artifacts: ArtifactStore;

  constructor(artifacts: ArtifactStore) {
    this.#artifacts = artifacts;
  }

  /** Errors: DISK_FULL. */
  build(kernel: CompiledKernel): KernelBuild {
    const { files, problems, units, runs, listing, emulation } = kernel;
    const spec = withShared(kernel.spec);
    const assembled = runs.filter((run) => didRun(run) && WITH_PTXAS.includes(run.unit.compiler.name));
    const reports = isCubinSource(spec.source)
      ? this.#entriesInCubin(runs, spec.arch)
      : assembled.flatMap(({ compilation }) => parsePtxasReport(compilation.lines));
    const isReported = assembled.length > 0 || isCubinSource(spec.source);
    const ptxEntries = isReported ? undefined : this.#entriesInPtx(runs);
    const takenBySymbol = this.#parametersOf(runs);
    const symbols = [...(isReported ? reports : (ptxEntries ?? [])).map(({ entry }) => entry)];
    const spelled = spec.triton
      ? new Map(spec.triton.map(({ entry, symbol }) => [entry, symbol]))
      : symbolsOfSpelled(spec.entries, [...new Set([...symbols, ...takenBySymbol.keys()])]);
    const inPtxas = asSpelled(reports, spelled);
    const inPtx = ptxEntries && asSpelled(ptxEntries, spelled);
    const excess = [
      ...runs.flatMap(({ compilation }) => parseSmemExcess(compilation.lines)),
      ...smemExcessOf(inPtx ?? []),
    ];
    const succeeded = compiled(problems, runs) && excess.length === 0;
    const sources = files
      .filter(({ binary }) => !binary)
      .map(({ path, text }): SourceText => ({ path: shownPath(path), text }));
    const resources = entryResources(inPtxas, spec.launches, spec.multiprocessors);
    const told = toldRuns(units, runs);
    const result = create(BuildResultSchema, {
      buildId: buildIdOf(kernel),
      succeeded,
      cacheHit: told.length > 0 && told.every(({ compilation }) => compilation.cacheHit),
      seconds: kernel.seconds,
      runs: told.map(runMessage),
      entries: resources,
      entriesMissing: entriesMissing(resources.length, {
        assembled: assembled.length > 0,
        problems,
        succeeded,
        nvccProblem: emulation?.nvccProblem,
      }),
      artifacts: [
        ...runs.flatMap(({ unit, compilation }) => compilation.outputs.map((output) => artifactOf(output, unit))),
        ...this.#keepListing(spec, listing),
        ...files.map((file) => this.#keepSource(file)),
      ],
      diagnostics: [...problems, ...told.flatMap(({ diagnostics }) => diagnostics)].map((diagnostic) => ({
        ...diagnostic,
        frame: codeFrame(sources, diagnostic),
      })),
      arch: spec.arch,
      flagsDigest: flagsDigest(told),
      smemRefusedBytes: excess[0]?.bytes ?? 0,
      ...this.#tensorCores(runs, kernel),
    });
    const parameters = new Map(
      asSpelled(
        [...takenBySymbol].map(([entry, taken]) => ({ entry, taken })),
        spelled,
      ).map(({ entry, taken }) => [entry, taken]),
    );
    const reported = (isReported ? inPtxas : inPtx)?.map(({ entry }) => entry);
    // The report may be truncated, so entries that only the compiled code shows are added.
    const found = reported && [...new Set([...reported, ...parameters.keys()])];
    return {
      result,
      findings: findingsOf(kernel, { excess, found, result, parameters }),
      // The fibre engine's module has each entry under the manifest's own name.
      image: succeeded
        ? withSymbols(this.#imageOf(runs, emulation), emulation?.engine === 'fibres' ? new Map() : spelled, spec)
        : undefined,
      sassMissing: listing && 'missing' in listing ? listing.missing : undefined,
      keptState: this.#keptState(runs, spec.source, kernel.code),
      sourceDigest: digestOf(files),
      sources,
    };
  }

  #imageOf(runs: readonly CompilerRun[], emulation: Emulation | undefined): DeviceImage | undefined {
    const loaded = runs.flatMap(({ unit, compilation }) => {
      const output = compilation.outputs.find(({ kind }) => kind === imageKind(emulation));
      return output ? [{ entries: unit.entries, path: this.#artifacts.path(output.sha256) }] : [];
    });
    if (loaded[0] && !loaded[0].entries) return loaded[0].path;
    return Object.fromEntries(loaded.flatMap(({ entries = [], path }) => entries.map((entry) => [entry, path])));
  }

  /** The entries in clang's PTX, for builds without a ptxas report; undefined if no PTX was made. */
  #entriesInPtx(runs: readonly CompilerRun[]): PtxEntry[] | undefined {
    const ptx = runs.flatMap(({ compilation }) => compilation.outputs).find(({ kind }) => kind === 'ptx');
    return ptx && readPtxEntries(readFileSync(this.#artifacts.path(ptx.sha256), 'utf8'));
  }

  /**
   * Whether the PTX of any run uses tensor cores. Without PTX: false if the sources name nothing that could, otherwise
   * absent.
   */
  #tensorCores(runs: readonly CompilerRun[], { files, units }: CompiledKernel): { tensorCores?: boolean } {
    const ptx = runs.flatMap(({ compilation }) => compilation.outputs).filter(({ kind }) => kind === 'ptx');
    if (ptx.length === 0) {
      const isWhole = units.every(({ headers = [] }) => headers.length === 0) && files.every(({ binary }) => !binary);
      return isWhole && !files.some(({ text }) => mayUseTensorCores(text)) ? { tensorCores: false } : {};
    }
    return {
      tensorCores: ptx.some(({ sha256 }) => hasTensorInstruction(readFileSync(this.#artifacts.path(sha256), 'latin1'))),
    };
  }

  #entriesInCubin(runs: readonly CompilerRun[], arch: string): PtxasEntry[] {
    const [cubin] = runs.flatMap(({ compilation }) => compilation.outputs);
    return cubin ? cubinEntries(readFileSync(this.#artifacts.path(cubin.sha256)), arch) : [];
  }

  /** The parameters of each entry, from the cubins if there are any, else from the PTX; a fibre module has neither. */
  #parametersOf(runs: readonly CompilerRun[]): EntryParameters {
    const outputs = runs.flatMap(({ compilation }) => compilation.outputs);
    const cubins = outputs.filter(({ kind }) => kind === 'cubin').map(({ sha256 }) => this.#artifacts.path(sha256));
    if (cubins.length > 0) return new Map(cubins.flatMap((path) => [...cubinParameters(path)]));
    const ptx = outputs.find(({ kind }) => kind === 'ptx');
    return ptx ? ptxParameters(readFileSync(this.#artifacts.path(ptx.sha256), 'utf8')) : new Map();
  }

  /**
   * Names the memory that outlives a launch, from the cubin of each run, or from its PTX if the run made no cubin. A
   * run for the fibre engine makes neither, so nothing is known of it.
   */
  #keptState(runs: readonly CompilerRun[], source: string, code: Listing | undefined): string[] {
    const state = runs.flatMap(({ compilation: { outputs } }) => {
      const [cubin, ptx] = (['cubin', 'ptx'] as const).map((wanted) => {
        const output = outputs.find(({ kind }) => kind === wanted);
        return output && readFileSync(this.#artifacts.path(output.sha256));
      });
      if (cubin && isCubinSource(source)) return stateInForeignCubin(cubin, code);
      if (cubin) return stateInCubin(cubin, ptx?.toString('utf8'));
      return ptx ? stateInPtx(ptx.toString('utf8')) : [];
    });
    return [...new Set(state)];
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

  /**
   * Stores a source along with the result, so that two jobs can be compared even after the kernel folder has changed.
   */
  #keepSource({ path, text, binary }: SnapshotFile): MessageInitShape<typeof ArtifactSchema> {
    const bytes = Buffer.from(text, binary ? 'latin1' : 'utf8');
    return {
      sha256: this.#artifacts.put(bytes),
      kind: ArtifactKind.SOURCE,
      fileName: shownPath(path),
      sizeBytes: BigInt(bytes.byteLength),
    } satisfies Partial<Artifact>;
  }
}

/** Removes the markers of spelled entries, and replaces compiled names with the names in the manifest. */
function asSpelled<T extends { entry: string }>(entries: readonly T[], spelled: ReadonlyMap<string, string>): T[] {
  const names = new Map([...spelled].map(([entry, symbol]) => [symbol, entry]));
  return entries
    .filter(({ entry }) => !isMarker(entry))
    .map((each) => ({ ...each, entry: names.get(each.entry) ?? each.entry }));
}

/** The launches with at least the amount of shared memory that the compiled code asks for. */
const withShared = (spec: BuildSpec): BuildSpec => ({
  ...spec,
  launches: spec.launches.map((launch) => ({
    ...launch,
    sharedBytes: Math.max(launch.sharedBytes, spec.memory?.get(launch.entry)?.sharedBytes ?? 0),
  })),
});

/**
 * The image by entry, with the compiled names of spelled entries and the memory that the compiled code asks for;
 * unchanged if it has neither.
 */
function withSymbols(
  image: DeviceImage | undefined,
  spelled: ReadonlyMap<string, string>,
  { entries, memory }: Pick<BuildSpec, 'entries' | 'memory'>,
): DeviceImage | undefined {
  if (typeof image !== 'string') return image;
  if (memory)
    return Object.fromEntries(
      entries.map((entry) => [entry, { path: image, symbol: spelled.get(entry) ?? entry, ...memory.get(entry) }]),
    );
  if (spelled.size === 0) return image;
  return Object.fromEntries(
    entries.map((entry) => {
      const symbol = spelled.get(entry);
      return [entry, symbol === undefined ? image : { path: image, symbol }];
    }),
  );
}

interface FindingParts {
  excess: SmemExcess[];
  /** Entries of the compiled code; undefined if not known. */
  found: string[] | undefined;
  result: BuildResult;
  parameters: EntryParameters;
}

function findingsOf(kernel: CompiledKernel, { excess, found, result, parameters }: FindingParts): Finding[] {
  const { spec, files, problems, runs } = kernel;
  const timedOut = runs.find(({ compilation }) => compilation.timedOut);
  if (timedOut) return [compileTimedOutFinding(timedOut.unit.compiler.name, timedOut.compilation.seconds)];
  if (excess[0])
    return [
      smemLimitFinding(excess[0], sharedBuffers(files, { ...spec.resolved.parameters, ...spec.resolved.constants })),
    ];
  const wrong = runs.flatMap(({ diagnostics }) => diagnostics).find(({ severity }) => severity === 'error');
  if (!result.succeeded && wrong?.file === SPELLING_FILE && spec.entries[wrong.line - 1] !== undefined)
    return [wrongSpellingFinding(spec.entries[wrong.line - 1]!, wrong.message, files)];
  if (!result.succeeded)
    return [compileFailedFinding([...problems, ...runs.flatMap(({ diagnostics }) => diagnostics)])];
  const missing = found ? spec.entries.filter((entry) => !found.includes(entry)) : [];
  if (missing.length > 0) return [missingEntryFinding(missing, found!)];
  const wrongArguments = argumentFinding(spec.launches, parameters);
  if (wrongArguments) return [wrongArguments];
  return result.entries.flatMap((entry) =>
    [dynamicSmemFinding(entry), registerFileFinding(entry), spillFinding(entry)].filter(
      (finding) => finding !== undefined,
    ),
  );
}

interface BuildEnd {
  assembled: boolean;
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

/** The runs to report: one per unit in which a compiler ran. Separate calls per entry are merged into one run. */
function toldRuns(units: readonly CompileUnit[], runs: readonly CompilerRun[]): readonly CompilerRun[] {
  return runs.some(({ unit }) => unit.entries) ? [partsAsOne(runs, units[0]!)] : runs.filter(didRun);
}

const didRun = ({ unit }: CompilerRun): boolean => unit.stages.length > 0;

const runMessage = ({ unit, compilation, parts = 0 }: CompilerRun): MessageInitShape<typeof CompilerRunSchema> => ({
  compiler: unit.compiler.name,
  version: unit.compiler.version,
  target: unit.target,
  arguments: unit.stages[0]![0]!.arguments,
  seconds: compilation.seconds,
  exitCode: compilation.exitCode,
  cacheHit: compilation.cacheHit,
  hostName: compilation.host ?? '',
  parts,
});

function artifactOf(
  { sha256, kind, fileName, sizeBytes }: Compilation['outputs'][number],
  { entries }: CompileUnit,
): MessageInitShape<typeof ArtifactSchema> {
  return {
    sha256,
    kind: ARTIFACT_KINDS[kind],
    fileName,
    sizeBytes: BigInt(sizeBytes),
    entries: [...(entries ?? [])],
  } satisfies Partial<Artifact>;
}

/**
 * Digest of everything that goes into the build. The manifest is included, because another launch plan under the same
 * id could make a champion look slower.
 */
function buildIdOf({ spec: { folderDigest, resolved, arch }, units }: CompiledKernel): string {
  return createHash('sha256')
    .update(JSON.stringify([folderDigest, resolved.parameters, arch, units.map(keyOf).sort()]))
    .digest('hex');
}
