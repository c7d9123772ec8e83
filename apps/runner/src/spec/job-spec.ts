import { create } from '@bufbuild/protobuf';
import { type Champion, type Device, type Shape, VariantSchema, type Variant } from '@flashcore/shared/contract';
import type { ResolvedVariant } from '@flashcore/shared/kernels';
import { counted } from '@flashcore/shared/text';
import type { TimingModeName } from '../../worker/messages/measuring.ts';
import type { JobMethod } from '../jobs/job-context.ts';
import type { ResolvedKernel } from '../kernels.ts';
import type { BenchmarkProtocolSpec } from './benchmark-protocol.ts';
import type { ChosenShapes } from './choose-shapes.ts';
import type { JudgedBy } from './judged-by.ts';
import type { VariantPlan } from './tune-variants.ts';

/**
 * The work of a job, with every default filled in. Making it has checked everything that can be wrong with a request.
 */
export interface JobSpec {
  method: JobMethod;
  kernel: ResolvedKernel;
  device: Device;
  resolved: ResolvedVariant;
  /** nvcc's target. */
  arch: string;
  /**
   * The variant with USE_WMMA=0, which runs if the requested one fails; the plan defines what its result may decide.
   */
  fallback: ResolvedVariant | undefined;
  /** Plan and gates; only for an experiment. */
  judged: JudgedBy | undefined;
  /** Whether the result may decide the champion; only for an experiment. */
  ranking: RunRanking | undefined;
  /** Shapes whose launches determine dynamic shared memory and occupancy. */
  shapes: Shape[];
  verify: VerifySpec | undefined;
  benchmark: BenchmarkSpec | undefined;
  profile: ProfileSpec | undefined;
  /** The champion to compare the requested variant with, on the shapes of the benchmark. */
  champion: ChampionSpec | undefined;
  /** Why there is no champion, or none to compare times with. */
  noChampion: string | undefined;
  /**
   * The accepted champion that the result may replace, in the form that an acceptance names it; undefined if there is
   * none.
   */
  over: Pick<Champion, 'job' | 'label'> | undefined;
  /** A search over variants. */
  tune: TuneSpec | undefined;
  /** Held-out shapes for the leader of a search; empty if there are none, or the job does not belong to a search. */
  heldOut: readonly Shape[];
}

/** Whether a run is ranked, and the digest of its rules. */
export interface RunRanking {
  /** All reasons why the run is not ranked; empty if it is. */
  reasons: string[];
  /** SHA-256 over the gates file, the plan's name and the cases file. */
  rulesDigest: string;
}

/** The variants of a search, and the limits after which it starts no further measurement. */
export interface TuneSpec {
  plan: VariantPlan;
  /** 0: no limit. */
  maxSeconds: number;
  maxUsd: number;
  remeasure: boolean;
}

export interface VerifySpec extends ChosenShapes {
  seedCount: number;
  /** The request's seeds; empty: seeds are drawn. */
  seeds: string[];
  tolerance: { profile?: string; absolute: number; relative: number };
  /** Also run a case under compute-sanitizer, on a GPU. */
  sanitize: boolean;
  /** Whether small cases on inputs that reveal known mistakes run first. */
  probes: boolean;
  /** Whether the probes include the long ones. */
  longProbes: boolean;
  /** Shapes on which the probes' inputs run too, because the kernel is timed on them and its result may be accepted. */
  timedShapes: readonly Shape[];
  /** Secret shapes drawn for this run; undefined if the result can't be accepted. */
  drawn: DrawnSpec | undefined;
}

/** Shapes and seeds that are drawn for one run, and reported after it. */
export interface DrawnSpec {
  shapes: readonly Shape[];
  /** Each shape runs on one input of each seed. */
  seeds: readonly string[];
}

/** Tolerance profiles whose results may be accepted. */
export const STRICT_PROFILES: readonly string[] = ['parity', 'strict'];

/** Whether errors are also judged against those that rounding explains; not if a request sets its own tolerance. */
export const judgesRounding = ({ tolerance: { profile = '' } }: Pick<VerifySpec, 'tolerance'>): boolean =>
  STRICT_PROFILES.includes(profile);

export interface BenchmarkSpec extends ChosenShapes {
  modes: TimingModeName[];
  protocol: BenchmarkProtocolSpec;
  tolerance: VerifySpec['tolerance'];
  /** Backends of SDPA to measure in turns, for example "flash"; empty: all. */
  sdpaBackends: string[];
  /** Rivals to check and to measure in turns instead, for example "flash_attention_3"; empty: none was named. */
  rivals: string[];
  /** Whether an earlier job's SDPA figures may be reused, after a check with a few samples. */
  reuseSdpa: boolean;
  /** Launches of the legacy loop; 0: none. */
  legacyLaunches: number;
}

export interface ChampionSpec {
  /**
   * The device's champion, if the request names none. It is built; it is timed only if times on the device mean
   * something.
   */
  accepted: Champion | undefined;
  /** Shapes that are compared. */
  shapes: Shape[];
  kernel: ResolvedKernel;
  resolved: ResolvedVariant;
  arch: string;
  /** Hot unless the request names modes, because back-to-back launches have the smaller spread. */
  modes: TimingModeName[];
  /** One seed on each compared shape, before anything is timed. */
  verify: Omit<VerifySpec, 'shapes'>;
}

export interface ProfileSpec extends Omit<ChosenShapes, 'shapes'> {
  shape: Shape;
  metricSet: string;
  /** Counters by the profiler's own names, in addition to those of the set. */
  counters: string[];
}

/** Kernel and variant, as shown in lists of jobs. */
export const labelOf = ({ kernel, resolved, tune }: JobSpec): string => {
  if (tune) return `${kernel.kernelId}, ${counted(tune.plan.variants.length, 'variant')}`;
  return resolved.label === 'default' ? kernel.kernelId : `${kernel.kernelId} ${resolved.label}`;
};

/** A variant in request form, with every parameter. */
export function variantMessage(resolved: ResolvedVariant): Variant {
  const { parameters, arch = '', maxRegisters, fastMath, keepPtx, keepSass } = resolved;
  const values = Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, BigInt(value)]));
  return create(VariantSchema, { parameters: values, arch, maxRegisters, fastMath, keepPtx, keepSass });
}
