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
import { jobRequest } from '../session/job-request.ts';
import type { StartRequest } from '../session/runner-port.ts';

/** What every experiment of a search or an evaluation has in common. */
export interface ExperimentSettings {
  readonly deviceId: string;
  readonly verify: VerifySettings;
  readonly benchmark: BenchmarkSettings;
  readonly profile: ProfileSettings;
  /** Of the gates file; empty: its default. */
  readonly plan: string;
  /** Limits on waiting and on running, seconds. */
  readonly maxQueueSeconds: number;
  readonly maxRunSeconds: number;
}

/** A kernel and how to compile it. */
export interface Side {
  readonly kernel: KernelReference;
  readonly variant: Variant;
}

export interface ExperimentOf {
  readonly candidate: Side;
  /** Compared with the candidate in the same job. */
  readonly champion?: Side | undefined;
  readonly requestId: string;
  readonly labels: Record<string, string>;
}

/** The whole experiment on one variant, without the fallback beside it: a search judges what it asked for. */
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
      // A search compares with what it names, and with nothing else.
      noChampion: champion === undefined,
      // What leads is tried on shapes that neither this program nor the proposer sees.
      heldOut: champion !== undefined,
    },
  });
}
