import type { Champion, Device, Shape } from '@flashcore/shared/contract';
import type { Cases, Problem } from '@flashcore/shared/kernels';
import type { Emulation } from '../build/emulation.ts';
import type { Toolchain } from '../build/toolchain.ts';
import type { DeviceLoad } from '../jobs/job-context.ts';
import type { KernelCatalog } from '../kernels.ts';
import type { ChampionPlace } from '../store/decisions.ts';
import type { GatesText } from './judged-by.ts';

/** Facts that the runner uses to plan a job. */
export interface SpecContext {
  devices: readonly Device[];
  kernels: KernelCatalog;
  /** Undefined if jobs are built on other hosts, whose tools are not known. */
  toolchain: Toolchain | undefined;
  /** Engine and compiler of the emulator; undefined if they are unknown because the emulator is on another host. */
  emulation: (() => Emulation) | undefined;
  /** Cases of a problem. Errors: INVALID_MANIFEST. */
  cases: (problem: Problem) => Cases;
  /** kernels/gates.yaml; read only for experiments. */
  gates: () => GatesText;
  /** The device's champion to compare a kernel of this lineage with; undefined if there is none. */
  championFor: (lineage: () => readonly string[], place: ChampionPlace) => Champion | undefined;
  load: DeviceLoad;
  /** Shapes that the host keeps secret. */
  heldOut: readonly Shape[];
}
