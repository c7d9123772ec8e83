import type { Champion, Device, Shape } from '@flashcore/shared/contract';
import type { ResolvedVariant } from '@flashcore/shared/kernels';
import type { TimingModeName } from '../../worker/messages/measuring.ts';
import type { JobMethod } from '../jobs/job-context.ts';
import type { ResolvedKernel } from '../kernels.ts';
import type { BenchmarkProtocolSpec } from './benchmark-protocol.ts';
import type { ChosenShapes } from './choose-shapes.ts';
import type { JudgedBy } from './judged-by.ts';
import type { VariantPlan } from './tune-variants.ts';

/** What to do, with every default filled in; all that a request can be wrong about was found while it was made. */
export interface JobSpec {
  method: JobMethod;
  kernel: ResolvedKernel;
  device: Device;
  resolved: ResolvedVariant;
  /** nvcc's target. */
  arch: string;
  /** The variant with USE_WMMA=0, to run where the one asked for fails; what it decides is the plan's. */
  fallback: ResolvedVariant | undefined;
  /** Plan and gates; an experiment's alone. */
  judged: JudgedBy | undefined;
  /** Whether the result may decide who is champion; an experiment's alone. */
  ranking: RunRanking | undefined;
  /** Launches of these shapes decide about dynamic shared memory and occupancy. */
  shapes: Shape[];
  verify: VerifySpec | undefined;
  benchmark: BenchmarkSpec | undefined;
  profile: ProfileSpec | undefined;
  /** What the variant asked for is compared with, on the shapes of the benchmark. */
  champion: ChampionSpec | undefined;
  /** Why there is none, or none that times are compared with. */
  noChampion: string | undefined;
  /** The accepted champion that the result may replace, as an acceptance must name it; undefined: there is none. */
  over: Pick<Champion, 'job' | 'label'> | undefined;
  /** A search over variants. */
  tune: TuneSpec | undefined;
  /** Shapes that no client sees, for what leads a search; empty: there are none, or the job is no search's. */
  heldOut: readonly Shape[];
}

/** Whether a run is ranked, and by which rules. */
export interface RunRanking {
  /** All reasons why it is not; empty: it is. */
  reasons: string[];
  /** SHA-256 over the gates file, the plan's name and the cases file. */
  rulesDigest: string;
}

/** Which variants a search looks at, and when it begins no other measurement. */
export interface TuneSpec {
  plan: VariantPlan;
  /** 0: no limit. */
  maxSeconds: number;
  maxUsd: number;
  remeasure: boolean;
}

export interface VerifySpec extends ChosenShapes {
  seedCount: number;
  /** Given by the request; empty: fresh ones. */
  seeds: string[];
  tolerance: { profile?: string; absolute: number; relative: number };
  /** Run a case under compute-sanitizer too, on a GPU. */
  sanitize: boolean;
  /** Whether small cases on inputs that break known mistakes come first. */
  probes: boolean;
  /** Whether the long one is among them. */
  longProbes: boolean;
  /** Shapes that nobody knows; undefined: the result can't be accepted. */
  drawn: DrawnSpec | undefined;
}

/** Drawn for one run, and told when it is over. */
export interface DrawnSpec {
  shapes: readonly Shape[];
  /** Each shape runs on one input of each seed. */
  seeds: readonly string[];
}

/** Profiles whose results may be accepted. */
export const STRICT_PROFILES: readonly string[] = ['parity', 'strict'];

/** Whether errors are judged by what rounding explains, too: a request with a tolerance of its own may want less. */
export const judgesRounding = ({ tolerance: { profile = '' } }: Pick<VerifySpec, 'tolerance'>): boolean =>
  STRICT_PROFILES.includes(profile);

export interface BenchmarkSpec extends ChosenShapes {
  modes: TimingModeName[];
  protocol: BenchmarkProtocolSpec;
  tolerance: { absolute: number; relative: number };
  /** Backends of SDPA measured in turns, for example "flash"; empty: all. */
  sdpaBackends: string[];
  /** Whether SDPA's figures of an earlier job will do, once a few samples have checked them. */
  reuseSdpa: boolean;
  /** Launches of the legacy loop; 0: none. */
  legacyLaunches: number;
}

export interface ChampionSpec {
  /** Set for the device's champion, which the request did not name: built, and timed where times say something. */
  accepted: Champion | undefined;
  /** Shapes that are compared. */
  shapes: Shape[];
  kernel: ResolvedKernel;
  resolved: ResolvedVariant;
  arch: string;
  /** Hot unless the request names modes: back to back the spread is the smaller one. */
  modes: TimingModeName[];
  /** One seed on each shape compared, before anything is timed. */
  verify: Omit<VerifySpec, 'shapes'>;
}

export interface ProfileSpec extends Omit<ChosenShapes, 'shapes'> {
  shape: Shape;
  metricSet: string;
  /** Counters by the profiler's own names, beside those of the set. */
  counters: string[];
}

/** Kernel and variant, as lists of jobs name them. */
export const labelOf = ({ kernel, resolved, tune }: JobSpec): string => {
  if (tune) return `${kernel.kernelId}, ${tune.plan.variants.length} variants`;
  return resolved.label === 'default' ? kernel.kernelId : `${kernel.kernelId} ${resolved.label}`;
};
