import { create } from '@bufbuild/protobuf';
import {
  type Phase,
  FindingSchema,
  LogLineSchema,
  PhaseStartedSchema,
  WarningSchema,
  type Finding,
  type VariantResult,
} from '@flashcore/shared/contract';
import { type Cases, type Gate, type ResolvedVariant } from '@flashcore/shared/kernels';
import type { ConditionsReport } from '../../worker/messages.ts';
import type { BuildTools } from '../build/build-tools.ts';
import type { BuildSpec } from '../build/kernel-builder.ts';
import type { JobContext } from '../jobs/job-context.ts';
import type { KernelCatalog } from '../kernels.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import type { HistoryStore } from '../store/history.ts';
import type { DeviceRuntime } from './device-runtime.ts';
import { shapeLaunches, type JobSpec } from './job-spec.ts';

/** What the phases of a running job share. */
export interface JobScope {
  job: JobContext;
  spec: JobSpec;
  runtime: DeviceRuntime;
  tools: BuildTools;
  artifacts: ArtifactStore;
  kernels: KernelCatalog;
  history: HistoryStore;
  cases: Cases;
  gates: Gate[];
  /** What was found out so far, by variant; the phases fill it in. */
  variants: VariantResult[];
  /** Seeds of the inputs, in the order of use. */
  seeds: string[];
  /** What the phases learn for the result's birth certificate. */
  birth: BirthFacts;
}

export interface BirthFacts {
  /** Of the variant asked for: SHA-256 over all sources that went into the build. */
  buildSources?: string;
  flagsDigest?: string;
  /** The device's state when the job had it ready. */
  conditions?: ConditionsReport;
}

/** One variant of the job's kernel. */
export interface VariantScope extends JobScope {
  resolved: ResolvedVariant;
  build: BuildSpec;
}

export function variantScope(scope: JobScope, resolved: ResolvedVariant): VariantScope {
  const { kernel, arch, device, shapes } = scope.spec;
  const { manifest } = kernel;
  const build: BuildSpec = {
    kernelId: kernel.kernelId,
    folder: kernel.folder,
    source: manifest.source,
    resolved,
    arch,
    emulated: device.simulated && manifest.emulated,
    entries: [...new Set(manifest.launches.map(({ entry }) => entry))],
    launches: shapeLaunches(manifest, resolved, shapes),
  };
  return { ...scope, resolved, build };
}

export function startPhase(
  { job, resolved }: Pick<VariantScope, 'job' | 'resolved'>,
  phase: Phase,
  steps: number,
): void {
  job.emit({ case: 'phaseStarted', value: create(PhaseStartedSchema, { phase, variant: resolved.label, steps }) });
}

export function emitFindings(job: JobContext, findings: readonly Finding[]): void {
  for (const finding of findings) job.emit({ case: 'finding', value: create(FindingSchema, finding) });
}

export function emitLog(job: JobContext, source: string, text: string): void {
  job.emit({ case: 'logLine', value: create(LogLineSchema, { source, text }) });
}

export function emitWarning(job: JobContext, message: string): void {
  job.emit({ case: 'warning', value: create(WarningSchema, { message }) });
}
