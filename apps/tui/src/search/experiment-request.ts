import { create } from '@bufbuild/protobuf';
import {
  JobOptionsSchema,
  KernelVariantSchema,
  type BenchmarkSettings,
  type KernelReference,
  type ProfileSettings,
  type Variant,
  type VerifySettings,
} from '@flashcore/shared/contract';
import { type StartRequest, jobRequest } from '../session/runner-port.ts';

/** Settings that all experiments of a search or an evaluation share. */
export interface ExperimentSettings {
  readonly deviceId: string;
  readonly verify: VerifySettings;
  readonly benchmark: BenchmarkSettings;
  readonly profile: ProfileSettings;
  /** Name of a plan in the gates file; empty for the default. */
  readonly plan: string;
  /** Limits on waiting and running, in seconds. */
  readonly maxQueueSeconds: number;
  readonly maxRunSeconds: number;
}

/** A kernel and its compiler settings. */
export interface Side {
  readonly kernel: KernelReference;
  readonly variant: Variant;
}

interface ExperimentOf {
  readonly candidate: Side;
  /** The kernel that the candidate is compared with in the same job. */
  readonly champion?: Side | undefined;
  readonly requestId: string;
  readonly labels: Record<string, string>;
}

/**
 * An experiment on one variant, without falling back to other variants, because a search judges only the requested one.
 */
export function experimentRequest(settings: ExperimentSettings, of: ExperimentOf): StartRequest {
  const { deviceId, verify, benchmark, profile, plan, maxQueueSeconds, maxRunSeconds } = settings;
  const { candidate, champion, requestId, labels } = of;
  return jobRequest('run', {
    common: {
      options: create(JobOptionsSchema, { requestId, deviceId, labels, maxQueueSeconds, maxRunSeconds }),
      ...candidate,
    },
    verify,
    benchmark: champion ? { ...benchmark, champion: create(KernelVariantSchema, champion) } : benchmark,
    profile,
    experiment: {
      plan,
      noFallback: true,
      // Without a champion in the request, nothing is compared; the runner's own champion is not used.
      noChampion: champion === undefined,
      // A candidate that beats its base is tried on shapes that neither this program nor the proposer sees.
      heldOut: champion !== undefined,
    },
  });
}
