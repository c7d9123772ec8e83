import { create } from '@bufbuild/protobuf';
import {
  VariantResultSchema,
  type BuildResult,
  type PhaseTime,
  type ProfileResult,
  type PrecheckItem,
  type VariantResult,
  type DeviceConditions,
  type Plain,
  type Shape,
} from '@flashcore/shared/contract';
import type { ResolvedVariant } from '@flashcore/shared/kernels';
import type { SeededInput } from '../../worker/messages/launchable.ts';
import type { DrawRequest } from '../../worker/messages/measuring.ts';
import type { KernelBuild } from '../build/compiled-kernel.ts';
import { variantMessage } from '../spec/job-spec.ts';
import type { Judging } from './judging.ts';

/** A job's findings so far, filled in by its phases; a stopped job keeps them. */
export interface JobFound {
  prechecks: PrecheckItem[];
  variants: VariantResult[];
  /** When and how long each phase ran; starts are relative to `started`, a time of performance.now(). */
  phaseTimes: PhaseTime[];
  started: number;
  /** Seeds of the inputs, in the order of use. */
  seeds: string[];
  /** Facts from the phases for the result's birth certificate. */
  birth: BirthFacts;
  /** The fallback's build, which runs while the requested variant is measured. */
  fallbackBuild?: BuildBeside | undefined;
  /** Why the job continued with the fallback. */
  fellBack?: string;
}

export interface BirthFacts {
  /** SHA-256 over all sources of the requested variant's build. */
  buildSources?: string;
  flagsDigest?: string;
  /** The device's state when it was ready for the job. */
  conditions?: Plain<DeviceConditions>;
}

/** A build in the background. */
export interface BuildBeside {
  /** Stops the build if it is still running. */
  drop(): Promise<void>;
}

/** A profiler that started during the build and waits for it. */
export interface Profiling {
  /** Lets the profiler launch the kernel; settles when the device is free again, or the profile is complete. */
  go(build: KernelBuild): Promise<void>;
  /** The counters that were read. */
  readonly result: Promise<ProfileResult>;
  /** Ends a profiler that still waits, and discards its results. */
  drop(): Promise<void>;
}

/** The shape, seed and trials from which the inputs of timed launches are drawn. */
export interface TimedInputs extends Pick<DrawRequest, 'seed' | 'trials'> {
  shape: Shape;
}

/** Findings about one variant of the job's kernel. */
export interface VariantFound {
  job: JobFound;
  result: VariantResult;
  /** Set once the variant is built. */
  build?: KernelBuild;
  /** The champion's build, once it is built. */
  championBuild?: BuildResult | undefined;
  /** An experiment's gates, which are decided during the measurement. */
  judging?: Judging | undefined;
  /** Inputs of the coming verification, drawn during the build. */
  inputs?: readonly SeededInput[];
  /** Reads counters as soon as the kernel is known to be correct. */
  profiling?: Profiling;
  /** Inputs of the first timed shape, if they were drawn while the counters were read. */
  timing?: TimedInputs | undefined;
  /** Settles when the counters are recorded; the profiler evaluates them during the next phases. */
  profiled?: Promise<void>;
  /** Seconds that the running phase has waited for the device to open. */
  waitSeconds?: number;
  /** Why phases after the stopping one do not run, for example 'verification failed'. */
  stopped?: string;
}

export const nothingFound = (): JobFound => ({
  prechecks: [],
  variants: [],
  phaseTimes: [],
  started: performance.now(),
  seeds: [],
  birth: {},
});

export function variantFound(
  job: JobFound,
  resolved: ResolvedVariant,
  { fallback }: { fallback: boolean },
): VariantFound {
  const { parameters } = variantMessage(resolved);
  const result = create(VariantResultSchema, { label: resolved.label, parameters, fallback });
  job.variants.push(result);
  return { job, result };
}
