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

/** The options of `flashcore-runner serve`, with every default filled in. */
export interface ServeOptions {
  /** undefined: the Unix socket of the data directory (embedded). */
  address: ListenAddress | undefined;
  dataDirectory: string;
  kernelsDirectory: string;
  /** Folders of problems, in addition to flashcore's own and those of $FLASHCORE_PROBLEMS. */
  problemFolders: readonly string[];
  embedded: boolean;
  /** An embedded runner exits after this time without clients and jobs. */
  idleExitSeconds: number;
  /** How long running jobs may continue after SIGTERM. */
  graceSeconds: number;
  maxQueued: number;
  /** Maximum number of open streams per client. */
  maxStreamsPerClient: number;
  /** Whether foreign code runs in a sandbox: if possible, never, or required. */
  isolation: IsolationWanted;
  /** Limits on what the processes of one sandbox use together, if the host has cgroups for it. */
  boxLimits: GroupLimits;
  /** Whether the emulator is served along with the GPUs. */
  emulator: boolean;
  /** The emulator's engine: fibres, PTX, or PTX if there is a front end that makes it. */
  emulatorEngine: EngineWanted;
  /** Header folders of this host that kernels may include, by name. */
  headers: readonly NamedFolder[];
  /** Whether root may serve. */
  allowRoot: boolean;
  /** TLS, and how clients authenticate; undefined: plain text, for this machine only. */
  security: ServeSecurity | undefined;
  reflection: boolean;
  /** Limits for each client with credentials. */
  quotas: QuotaLimits;
  /** US dollars per hour, by the device's name. */
  rates: DeviceRates;
  /** File with the held-out shapes, which clients never see; undefined: none. */
  heldOut: string | undefined;
  /** Address on this machine at which Prometheus finds metrics; undefined: none. */
  metrics: ListenAddress | undefined;
  retention: RetentionPolicy;
  logLevel: string;
  host: HostSettings;
  /** The cluster that runs a gateway's jobs; undefined if this host runs them. */
  fleet?: FleetFile | undefined;
  /** The gateway that this runner gets its jobs from; undefined if clients connect to it. */
  pilot?: PilotSettings | undefined;
}

export interface PilotSettings {
  /** Address "host:port" at which pilots register with the gateway. */
  gateway: string;
  /** Path of the certificate of the authority that signed the gateway's certificate; undefined: plain text. */
  authority: string | undefined;
}

export interface ServeSecurity {
  /** Folder with ca.crt, server.crt and server.key. */
  folder: string;
  clients: 'certificate' | 'token';
}
