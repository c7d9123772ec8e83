import { create } from '@bufbuild/protobuf';
import {
  VariantResultSchema,
  type BuildResult,
  type PhaseTime,
  type ProfileResult,
  type PrecheckItem,
  type VariantResult,
  type DeviceConditions,
} from '@flashcore/shared/contract';
import type { ResolvedVariant } from '@flashcore/shared/kernels';
import type { SeededInput } from '../../worker/messages/launchable.ts';
import type { Plain } from '../../worker/messages/plain.ts';
import type { KernelBuild } from '../build/compiled-kernel.ts';
import type { BuildBeside } from './fallback-build.ts';
import type { Judging } from './judging.ts';

/** What a job has found out so far; its phases fill it in, and a job that is stopped keeps it. */
export interface JobFound {
  prechecks: PrecheckItem[];
  variants: VariantResult[];
  /** How long each phase took, and since when they are told, as performance.now() gives it. */
  phaseTimes: PhaseTime[];
  started: number;
  /** Seeds of the inputs, in the order of use. */
  seeds: string[];
  /** What the phases learn for the result's birth certificate. */
  birth: BirthFacts;
  /** The fallback's, while the variant before it is measured. */
  fallbackBuild?: BuildBeside | undefined;
  /** Why the plan went on with the fallback. */
  fellBack?: string;
}

export interface BirthFacts {
  /** Of the variant asked for: SHA-256 over all sources that went into the build. */
  buildSources?: string;
  flagsDigest?: string;
  /** The device's state when the job had it ready. */
  conditions?: Plain<DeviceConditions>;
}

/** A profiler that was started beside the build and waits. */
export interface Profiling {
  /** Lets it launch the kernel; settles when the device is free again, or the profile is there. */
  go(build: KernelBuild): Promise<void>;
  /** What it has read. */
  readonly result: Promise<ProfileResult>;
  /** Ends it, where it still waits; nothing of it is kept. */
  drop(): Promise<void>;
}

/** The same for one variant of the job's kernel. */
export interface VariantFound {
  job: JobFound;
  result: VariantResult;
  /** Once it was built. */
  build?: KernelBuild;
  /** The champion's, once it was built. */
  championBuild?: BuildResult | undefined;
  /** An experiment's gates, which are decided while it is measured. */
  judging?: Judging | undefined;
  /** What its verification will draw, decided while it is built. */
  inputs?: readonly SeededInput[];
  /** Counters that are read as soon as the kernel is known to be right. */
  profiling?: Profiling;
  /** Settles when the counters are noted, which the profiler evaluates beside the phases after it. */
  profiled?: Promise<void>;
  /** What the phase that runs has waited for the device to open, seconds. */
  waitSeconds?: number;
  /** Why the phases after the one that stopped are not run: 'verification failed'. */
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
  { label, parameters }: ResolvedVariant,
  { fallback }: { fallback: boolean },
): VariantFound {
  const values = Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, BigInt(value)]));
  const result = create(VariantResultSchema, { label, parameters: values, fallback });
  job.variants.push(result);
  return { job, result };
}
