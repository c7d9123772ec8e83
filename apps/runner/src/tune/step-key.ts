import type { Device } from '@flashcore/shared/contract';
import type { Cases } from '@flashcore/shared/kernels';
import type { Emulation } from '../build/emulation.ts';
import { PROTOCOL_VERSION } from '../spec/benchmark-protocol.ts';
import type { StepKey } from '../store/measured-steps.ts';

/** What every measurement of a search depends on, apart from its subject. */
export interface MeasuredOn {
  readonly device: Pick<Device, 'name' | 'driverVersion' | 'kernelDriverVersion' | 'simulated'>;
  /** Determine the inputs and the correct outputs. */
  readonly cases: Pick<Cases, 'digest'>;
  readonly emulation: () => Pick<Emulation, 'engine'>;
}

/** The key that a measurement is kept under. */
export function stepKey(of: StepKey, { device, cases, emulation }: MeasuredOn): StepKey {
  const { name, driverVersion, kernelDriverVersion, simulated } = device;
  return [
    ...of,
    cases.digest,
    name,
    driverVersion,
    kernelDriverVersion,
    simulated ? emulation().engine : undefined,
    PROTOCOL_VERSION,
  ];
}
