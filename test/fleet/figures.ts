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
