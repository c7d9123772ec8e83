import { create } from '@bufbuild/protobuf';
import {
  Verdict,
  ProfileResultSchema,
  type Device,
  type LaunchWaves,
  type ProfileResult,
  type Shape,
} from '@flashcore/shared/contract';
import type { LaunchPlan } from '@flashcore/shared/kernels';
import type { DeviceImage } from '../../worker/messages/launchable.ts';

/** What the profiler needs of a build. */
export interface ProfiledBuild {
  image: DeviceImage;
  /** How the launch fills the device; undefined: not known. */
  waves: LaunchWaves | undefined;
}

/** What to read hardware counters of. */
export interface ProfileRequest {
  device: Device;
  shape: Shape;
  plan: LaunchPlan;
  /** "gates", "roofline", "stalls" or "full". */
  metricSet: string;
  /** Counters by Nsight Compute's own names, besides those of the set. */
  counters?: readonly string[];
  /** What the kernel's tensor cores add up in, by its manifest. */
  accumulate?: string;
}

interface ProfileProgress {
  message: string;
  passesDone: number;
  passes: number;
}

export interface ProfileOptions {
  signal: AbortSignal;
  onProgress: (progress: ProfileProgress) => void;
  /** A promise: the kernel is loaded and launched when it settles; until then everything else is made ready. */
  built: ProfiledBuild | Promise<ProfiledBuild>;
  /** Told when the device is used no more: what is left of the profile is work of the host. */
  onLaunched?: () => void;
}

/** Reads hardware counters while a kernel runs. */
export interface Profiler {
  /** A result whose verdict is NOT_MEASURED, with the reason, where counters can't be read. */
  profile(request: ProfileRequest, options: ProfileOptions): Promise<ProfileResult>;
}

/** What arithmetic and traffic follow from. */
export interface ProfiledTensors {
  shape: Shape;
  plan: LaunchPlan;
}

/** The profiler of a host where no counter can be read, and why. */
export function noProfiler(reason: string): Profiler {
  return { profile: ({ shape, plan }) => Promise.resolve(notMeasured({ shape, plan }, reason)) };
}

export function notMeasured({ shape, plan }: ProfiledTensors, reason: string): ProfileResult {
  return create(ProfileResultSchema, {
    verdict: Verdict.NOT_MEASURED,
    reason,
    shape,
    arithmeticIntensity: plan.flops / plan.bytes,
  });
}
