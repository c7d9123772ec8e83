import type { Simulation } from '@flashcore/runner/testing-daemon';

/** What the simulation stored, below the repository. */
export const SIMULATED = 'docs/results/fleet-2026-11-22/simulated.json';

export interface SimulatedPoint extends Simulation {
  nodes: number;
  gpus: number;
  jobs: number;
  whole: boolean;
  /** What a perfect list scheduler takes. */
  listSeconds: number;
}

export const OVERHEAD = 'docs/results/fleet-2026-11-22/overhead.json';

export interface Overhead {
  machine: string;
  /** From a request to the event that says on which node it starts, with a pilot that is idle. */
  startMs: Quantiles;
  /** To the first event of the pilot's own. */
  firstEventMs: Quantiles;
  queued: number;
  submitsPerSecond: number;
  /** CPU time of the gateway, a submission. */
  submitCpuMs: number;
  rssBeforeMib: number;
  rssQueuedMib: number;
  watchers: number;
  rssWatchedMib: number;
  /** Of one core. */
  idleCpuPercent: number;
}

export interface Quantiles {
  p50: number;
  p90: number;
}
