import type { Champion, Device, Shape } from '@flashcore/shared/contract';
import type { Cases, Problem } from '@flashcore/shared/kernels';
import type { Emulation } from '../build/emulation.ts';
import type { Toolchain } from '../build/toolchain.ts';
import type { DeviceLoad } from '../jobs/job-context.ts';
import type { KernelCatalog } from '../kernels.ts';
import type { ChampionPlace } from '../store/decisions.ts';
import type { GatesText } from './judged-by.ts';

/** What the runner knows when it plans a job. */
export interface SpecContext {
  devices: readonly Device[];
  kernels: KernelCatalog;
  /** Undefined: jobs are built on other hosts, and what these have is not known. */
  toolchain: Toolchain | undefined;
  /** What the emulator runs kernels with; undefined: that of another host, which is not known. */
  emulation: (() => Emulation) | undefined;
  /** Of a problem. Errors: INVALID_MANIFEST. */
  cases: (problem: Problem) => Cases;
  /** kernels/gates.yaml; read for experiments alone. */
  gates: () => GatesText;
  /** The device's champion that a kernel of this lineage is compared with; undefined: there is none. */
  championFor: (lineage: () => readonly string[], place: ChampionPlace) => Champion | undefined;
  load: DeviceLoad;
  /** Shapes that the host keeps to itself. */
  heldOut: readonly Shape[];
}
