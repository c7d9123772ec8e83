import type { DeviceRates } from './cost.ts';

/** Identity of the runner, for birth certificates. */
export interface RunnerIdentity {
  version: string;
  buildId: string;
  rates: DeviceRates;
}
