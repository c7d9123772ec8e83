import type { DeviceRates } from './cost.ts';

/** Identity of the runner, for provenances. */
export interface RunnerIdentity {
  version: string;
  buildId: string;
  rates: DeviceRates;
}
