import type { EngineWanted } from './build/emulator-engine.ts';
import type { NamedFolder } from './build/header-trees.ts';
import type { QuotaLimits } from './access/quotas.ts';
import type { DeviceRates } from './experiment/cost.ts';
import type { FleetFile } from './fleet/fleet-file.ts';
import type { HostSettings } from './host-settings.ts';
import type { RetentionPolicy } from './operation/retention.ts';
import type { ListenAddress } from './rpc/address.ts';
import type { IsolationWanted } from './sandbox/find-box.ts';
import type { GroupLimits } from './sandbox/groups.ts';

/** What `flashcore-runner serve` was asked for, with every default filled in. */
export interface ServeOptions {
  /** Undefined: a Unix socket that belongs to the data directory (embedded). */
  address: ListenAddress | undefined;
  dataDirectory: string;
  kernelsDirectory: string;
  /** Of problems beside flashcore's own and those of $FLASHCORE_PROBLEMS. */
  problemFolders: readonly string[];
  embedded: boolean;
  /** Embedded: ends when there was no client and no job for so long. */
  idleExitSeconds: number;
  /** How long running jobs may go on after SIGTERM. */
  graceSeconds: number;
  maxQueued: number;
  /** Streams of one client that are open at once. */
  maxStreamsPerClient: number;
  /** Whether foreign source is boxed: where that works, never, or not served without. */
  isolation: IsolationWanted;
  /** What the processes of one box may use together, where the host has cgroups for it. */
  boxLimits: GroupLimits;
  /** Whether the emulator is served beside the GPUs. */
  emulator: boolean;
  /** What the emulator runs kernels with: fibres, PTX, or PTX where there is a front end that makes it. */
  emulatorEngine: EngineWanted;
  /** What kernels may include from this host, by name. */
  headers: readonly NamedFolder[];
  /** Root may serve. */
  allowRoot: boolean;
  /** TLS, and how clients show who they are; undefined: plain text, on this machine alone. */
  security: ServeSecurity | undefined;
  reflection: boolean;
  /** For each client that shows a credential. */
  quotas: QuotaLimits;
  /** US dollars an hour, by the device's name. */
  rates: DeviceRates;
  /** File of shapes that clients never see; undefined: none. */
  heldOut: string | undefined;
  /** Where Prometheus finds metrics, on this machine; undefined: nowhere. */
  metrics: ListenAddress | undefined;
  retention: RetentionPolicy;
  logLevel: string;
  host: HostSettings;
  /** The cluster that a gateway's jobs run on; undefined: this host is the one. */
  fleet?: FleetFile | undefined;
  /** The gateway that this runner takes its jobs from; undefined: clients come to it. */
  pilot?: PilotSettings | undefined;
}

export interface PilotSettings {
  /** "host:port" where the gateway lets pilots register. */
  gateway: string;
  /** Path of the certificate of the authority that signed the gateway's; undefined: plain text. */
  authority: string | undefined;
}

export interface ServeSecurity {
  /** With ca.crt, server.crt and server.key. */
  folder: string;
  clients: 'certificate' | 'token';
}
