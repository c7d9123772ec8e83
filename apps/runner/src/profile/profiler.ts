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

/** The parts of a build that the profiler needs. */
export interface ProfiledBuild {
  image: DeviceImage;
  /** How well the launch fills the device; undefined if not known. */
  waves: LaunchWaves | undefined;
}

/** The launch to profile, and the counters to read. */
export interface ProfileRequest {
  device: Device;
  shape: Shape;
  plan: LaunchPlan;
  /** "gates", "roofline", "stalls" or "full". */
  metricSet: string;
  /** Counters by Nsight Compute's own names, in addition to those of the set. */
  counters?: readonly string[];
  /** Accumulator type of the kernel's tensor cores, from its manifest. */
  accumulate?: string;
  /** Whether the kernel's source contains a word. */
  sourceHas?: (word: string) => boolean;
  /** Finds the CPU reference's library, which draws inputs. */
  referenceLibrary?: () => Promise<string>;
  /** Finds clock-stamp.cu, compiled for the device: the launch that warms up the profiler. */
  clockStamp?: () => Promise<string>;
}

interface ProfileProgress {
  message: string;
  passesDone: number;
  passes: number;
}

export interface ProfileOptions {
  signal: AbortSignal;
  onProgress: (progress: ProfileProgress) => void;
  /** If a promise, everything else is prepared first; the kernel is loaded and launched when the promise resolves. */
  built: ProfiledBuild | Promise<ProfiledBuild>;
  /** Called when the device is free: the rest of the profile is work for the host. */
  onLaunched?: () => void;
}

/** Reads hardware counters while a kernel runs. */
export interface Profiler {
  /** If counters can't be read, the result has verdict NOT_MEASURED and the reason. */
  profile(request: ProfileRequest, options: ProfileOptions): Promise<ProfileResult>;
}

/** Inputs for arithmetic and traffic figures. */
export interface ProfiledTensors {
  shape: Shape;
  plan: LaunchPlan;
}

/** The profiler of a host where no counter can be read; every result has the reason. */
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

/** The environment variables that tools, the driver and Node need. */
export function toolEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => /^(PATH|HOME|TMPDIR|LD_LIBRARY_PATH|CUDA_.*|NVIDIA_.*)$/.test(name)),
  );
}
