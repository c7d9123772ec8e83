import { create } from '@bufbuild/protobuf';
import {
  type Phase,
  DeviceConditionsSchema,
  FindingKind,
  FindingSchema,
  LogLineSchema,
  PhaseStartedSchema,
  WarningSchema,
  type Finding,
  type CodeFrame,
} from '@flashcore/shared/contract';
import { isTritonSource, tritonUnits, type Cases, type ResolvedVariant } from '@flashcore/shared/kernels';
import type { WorkerNotice } from '../../worker/messages/channel.ts';
import type { BuildTools } from '../build/build-tools.ts';
import type { BuildListener } from '../build/compile-cache.ts';
import { codeFrame, type Place, type SourceText } from '../build/diagnostics.ts';
import type { BuildSpec } from '../build/kernel-units.ts';
import type { DeviceRuntime } from '../device/device-runtime.ts';
import { linesOfUse } from '../findings/lines-of-use.ts';
import type { JobContext } from '../jobs/job-context.ts';
import type { KernelCatalog } from '../kernels.ts';
import { shapeLaunches } from '../spec/choose-shapes.ts';
import type { JobSpec } from '../spec/job-spec.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import type { DecisionStore } from '../store/decisions.ts';

/** The fixed inputs of a job's phases. What the phases find goes to JobFound. */
export interface JobServices {
  job: JobContext;
  spec: JobSpec;
  runtime: DeviceRuntime;
  tools: BuildTools;
  artifacts: ArtifactStore;
  kernels: KernelCatalog;
  decisions: DecisionStore;
  cases: Cases;
  /** Called when compilations for the job start and end. */
  compiling?: Pick<BuildListener, 'onStart' | 'onCompiled'>;
}

/** The compiled sources of a variant, to which its findings refer. */
class FrameBook {
  #files: readonly SourceText[] = [];

  open(files: readonly SourceText[]): void {
    this.#files = files;
  }

  ofFinding({ location, threads }: Finding): CodeFrame | undefined {
    const places = [
      ...(location === undefined ? [] : [{ file: location.file, line: location.line, column: 0 }]),
      ...threads.flatMap(({ place }) => placeIn(place) ?? []),
    ];
    return places.map((place) => codeFrame(this.#files, place)).find((frame) => frame !== undefined);
  }

  /** The source around the places of a finding other than that of its frame: those of its threads, then the calls. */
  othersOf({ message, frame, threads }: Finding): CodeFrame[] {
    const places = [
      ...threads.flatMap(({ place }) => placeIn(place) ?? []),
      ...[...message.matchAll(new RegExp(PLACE, 'g'))].flatMap(([text]) => placeIn(text) ?? []),
    ];
    const frames = places.flatMap((place) => codeFrame(this.#files, place) ?? []);
    const known = new Map(frames.map((each) => [`${each.file}:${each.line}`, each]));
    if (frame !== undefined) known.delete(`${frame.file}:${frame.line}`);
    return [...known.values()].slice(0, MOST_OTHER_FRAMES);
  }

  frameAt(place: Place): CodeFrame | undefined {
    return codeFrame(this.#files, place);
  }

  /** The places in a file where one of the variables is used; empty if there are many. */
  placesOfUse(file: string, names: readonly string[]): Place[] {
    return linesOfUse(this.#files, file, names).map((line) => ({ file, line, column: 0 }));
  }

  /** True if a source contains a word. */
  contains(word: string): boolean {
    return this.#files.some(({ text }) => new RegExp(`\\b${word}\\b`).test(text));
  }

  /** A line of the sources; empty if the location is not in these files. */
  lineAt(file: string, line: number): string {
    const frame = codeFrame(this.#files, { file, line, column: 0 });
    return frame?.lines[line - frame.firstLine] ?? '';
  }
}

const MOST_OTHER_FRAMES = 3;
const PLACE = /([^\s:(),]+):(\d+)(?::(\d+))?/;

/** The source location in a text such as "waits at __syncthreads, divergent_barrier.cu:31". */
function placeIn(text: string): Place | undefined {
  const [, file, line, column] = PLACE.exec(text) ?? [];
  return file === undefined ? undefined : { file, line: Number(line), column: Number(column ?? 0) };
}

/** JobServices, and what belongs to one variant of the job's kernel. */
export interface VariantServices extends JobServices {
  /** The variant's sources, once it is compiled. */
  frames: FrameBook;
  resolved: ResolvedVariant;
  build: BuildSpec;
}

/** The parts of a variant's services that are known before its job has a device. */
export type PlannedVariant = Omit<VariantServices, 'job' | 'runtime'>;

export function variantServices<Services extends Pick<JobServices, 'spec'>>(
  services: Services,
  resolved: ResolvedVariant,
): Services & Pick<VariantServices, 'resolved' | 'build' | 'frames'> {
  const { kernel, arch, device, shapes } = services.spec;
  const { manifest } = kernel;
  const build: BuildSpec = {
    kernelId: kernel.kernelId,
    folder: kernel.folder,
    source: manifest.source,
    folderDigest: kernel.sourceDigest,
    resolved,
    arch,
    emulated: device.simulated && manifest.emulated !== false,
    multiprocessors: sameFamily(arch, device.arch) ? device.multiprocessors : undefined,
    entries: [...new Set(manifest.launches.map(({ entry }) => entry))],
    triton: isTritonSource(manifest.source) ? tritonUnits(manifest, resolved) : undefined,
    launches: shapeLaunches(manifest, resolved, shapes),
  };
  return { ...services, resolved, build, frames: new FrameBook() };
}

/** Treats "sm_90a" as sm_90. */
const sameFamily = (a: string, b: string): boolean => a.replace(/[af]$/, '') === b.replace(/[af]$/, '');

export function startPhase(
  { job, resolved }: Pick<VariantServices, 'job' | 'resolved'>,
  phase: Phase,
  steps: number,
): void {
  job.emit({ case: 'phaseStarted', value: create(PhaseStartedSchema, { phase, variant: resolved.label, steps }) });
}

/** Emits findings, each with the source line that it points to. */
export function emitFindings({ job, frames }: Pick<VariantServices, 'job' | 'frames'>, findings: Finding[]): void {
  for (const finding of findings) {
    finding.frame ??= frames.ofFinding(finding);
    if (finding.kind === FindingKind.RACE) finding.otherFrames = frames.othersOf(finding);
  }
  for (const finding of findings) job.emit({ case: 'finding', value: create(FindingSchema, finding) });
}

export function emitLog(job: JobContext, source: string, text: string): void {
  job.emit({ case: 'logLine', value: create(LogLineSchema, { source, text }) });
}

/** Emits the device's state that the worker reports; the emulator has none. */
export function emitConditions({ job, spec }: Pick<VariantServices, 'job' | 'spec'>, notice: WorkerNotice): void {
  if (notice.type === 'conditions' && !spec.device.simulated)
    job.emit({ case: 'deviceConditions', value: create(DeviceConditionsSchema, notice.conditions) });
}

export function emitWarning(job: JobContext, message: string): void {
  job.emit({ case: 'warning', value: create(WarningSchema, { message }) });
}
