import type { Simulation } from '@flashcore/runner/testing-daemon';

/** Path of the simulation's results in the repository. */
export const SIMULATED = 'docs/results/fleet-2026-11-22/simulated.json';

export interface SimulatedPoint extends Simulation {
  nodes: number;
  gpus: number;
  jobs: number;
  whole: boolean;
  /** Seconds that a perfect list scheduler takes. */
  listSeconds: number;
}

export const OVERHEAD = 'docs/results/fleet-2026-11-22/overhead.json';

export interface Overhead {
  machine: string;
  /** From a request to the event that names the node where it starts, with an idle pilot. */
  startMs: Quantiles;
  /** From a request to the pilot's first event. */
  firstEventMs: Quantiles;
  queued: number;
  submitsPerSecond: number;
  /** The gateway's CPU time per submission. */
  submitCpuMs: number;
  rssBeforeMib: number;
  rssQueuedMib: number;
  watchers: number;
  rssWatchedMib: number;
  /** Percent of one core. */
  idleCpuPercent: number;
}

export interface Quantiles {
  p50: number;
  p90: number;
}
