/**
 * The options of `flashcore-runner serve`, `gateway` and `pilot`, as one table. A row gives the flag, the environment
 * variable behind it, how a text becomes a value, the default and the line of --help. The type ServeOptions follows
 * from the rows.
 */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { Option, type Command } from 'commander';
import { UsageError } from '@flashcore/shared/contract';
import { TokenFile } from './access/credential-files.ts';
import type { HostSettings } from './build/build-tools.ts';
import { parseHeaderTrees } from './build/header-trees.ts';
import { DEFAULT_ENGINE, ENGINES_WANTED } from './build/host-libraries.ts';
import { chooseVectorPath, hostProcessorFeatures, VECTORS_WANTED, type VectorsWanted } from './build/vector-path.ts';
import { parseRates } from './experiment/cost.ts';
import type { PlannerOptions } from './experiment/planner.ts';
import { readFleetFile, type FleetFile } from './fleet/fleet-file.ts';
import type { JobPlanner } from './jobs/job-context.ts';
import type { Logger } from './log.ts';
import { policyOf, type KeepFlags } from './operation/host-commands.ts';
import type { TraceTarget } from './operation/tracing.ts';
import { formatAddress, isExposed, parseListenAddress, type ListenAddress } from './rpc/address.ts';
import type { OwnerOf } from './rpc/call.ts';
import type { StreamLimits } from './rpc/open-streams.ts';
import { defaultLimits, type ProcessGroups } from './sandbox/groups.ts';

/** Facts that a default may depend on. */
interface Facts {
  /** The repository or the bundle that the runner belongs to. */
  repositoryRoot: string;
  environment: NodeJS.ProcessEnv;
  /** The number of devices that may be served: a gateway's pilots, or 1. */
  devices: number;
}

interface Row<Value> {
  /** The flag in commander's syntax; absent if only the environment variable gives the value. */
  readonly flags?: string;
  /** The line of --help, to which the variable and the default are added. */
  readonly about?: string;
  /** Parses the text, or the texts of a flag that takes a list. Throws RangeError with "must be …". */
  readonly read: (...texts: string[]) => Value;
  /** The environment variable that gives the value if the flag is absent. */
  readonly variable?: string;
  readonly otherwise: (facts: Facts) => Value;
  /** The default in words; undefined if it would tell a reader nothing. */
  readonly inWords?: string;
  /** Whether the option needs credentials: without them, every caller is the client "local". */
  readonly needsTls?: boolean;
}

type Table = Readonly<Record<string, Row<unknown>>>;
type ValuesOf<Rows extends Table> = { -readonly [Name in keyof Rows]: ReturnType<Rows[Name]['otherwise']> };
type More<Value> = Partial<Row<Value>>;

const text = (value: string): string => value;

function flag(flags: string, about: string, more: More<boolean> = {}): Row<boolean> {
  return { flags, about, read: (given) => given === '1', otherwise: () => false, ...more };
}

interface Choices<Choice extends string> extends Omit<More<Choice>, 'otherwise'> {
  choices: readonly Choice[];
  otherwise: NoInfer<Choice>;
}

function oneOf<const Choice extends string>(
  flags: string,
  about: string,
  { choices, otherwise, ...more }: Choices<Choice>,
): Row<Choice> {
  const read = (given: string): Choice => chosen(choices, given);
  return {
    flags,
    about: `${about}: ${choices.join(', ')}`,
    read,
    otherwise: () => otherwise,
    inWords: otherwise,
    ...more,
  };
}

function chosen<Choice extends string>(choices: readonly Choice[], given: string): Choice {
  const found = choices.find((choice) => choice === given);
  if (found === undefined) throw new RangeError(`must be one of ${choices.join(', ')}, got "${given}"`);
  return found;
}

interface Range {
  least: number;
  most: number;
  /** Default: any number. */
  integer?: boolean;
}

const within =
  ({ least, most, integer = false }: Range) =>
  (given: string): number => {
    const value = given.trim() === '' ? Number.NaN : Number(given);
    if (!(value >= least && value <= most) || (integer && !Number.isInteger(value)))
      throw new RangeError(`must be ${integer ? 'an integer' : 'a number'} from ${least} to ${most}, got "${given}"`);
    return value;
  };
const seconds = within({ least: 0.001, most: 86_400 });
const count = within({ least: 1, most: 100_000, integer: true });
/** With less memory than a compiler needs, every job would fail. */
const LEAST_BOX_MIB = 512;
const MIB = 1024 ** 2;
/** The queue length at which a gateway's memory was measured (docs/fleet.md). */
const MOST_QUEUED = 100_000;
const MAX_EMULATED_DEVICES = 8;

const always =
  <Value>(value: Value) =>
  (): Value =>
    value;
const none =
  <Value>() =>
  (): Value | undefined =>
    undefined;

export const defaultData = (environment: NodeJS.ProcessEnv): string =>
  environment['FLASHCORE_HOME'] || join(homedir(), '.flashcore');

const OPTIONS = {
  /** undefined: the Unix socket of the data folder (embedded). */
  address: {
    flags: '--address <address>',
    about: 'where to listen: host:port of this machine, or unix:/path',
    read: parseListenAddress,
    otherwise: none<ListenAddress>(),
    inWords: '127.0.0.1:50051',
  },
  dataDirectory: {
    flags: '--data <folder>',
    about: 'jobs, artifacts and sources',
    read: (folder: string) => resolve(folder),
    otherwise: ({ environment }: Facts) => resolve(defaultData(environment)),
    inWords: '$FLASHCORE_HOME, or ~/.flashcore',
  },
  kernelsDirectory: {
    flags: '--kernels <folder>',
    about: "the runner's kernels",
    read: (folder: string) => resolve(folder),
    otherwise: ({ repositoryRoot }: Facts) => join(repositoryRoot, 'kernels'),
    inWords: "flashcore's own",
  },
  problemFolders: {
    flags: '--problems <folder...>',
    about: "folders of problems, in addition to flashcore's own and those of $FLASHCORE_PROBLEMS (docs/problems.md)",
    read: (...folders: string[]) => folders.map((folder) => resolve(folder)),
    otherwise: (): readonly string[] => [],
  },
  embedded: flag('--embedded', 'for one client: listen on a Unix socket, and exit when unused'),
  idleExitSeconds: {
    flags: '--idle-exit-seconds <seconds>',
    about: 'embedded: exit after this long without a client or job',
    read: seconds,
    otherwise: always(30),
    inWords: '30',
  },
  graceSeconds: {
    flags: '--grace-seconds <seconds>',
    about: 'how long running jobs may continue after SIGTERM',
    read: seconds,
    otherwise: always(10),
    inWords: '10',
  },
  /** Read from a file, because clients must never see these shapes. */
  heldOut: {
    flags: '--held-out <file>',
    about: 'shapes that clients never see, on which leaders of searches are tried (docs/search.md)',
    variable: 'FLASHCORE_HELD_OUT',
    read: text,
    otherwise: none<string>(),
  },
  maxQueued: {
    flags: '--max-queued <jobs>',
    about: 'how many jobs may wait at once',
    read: count,
    otherwise: ({ devices }: Facts) => Math.min(MOST_QUEUED, 64 * devices),
    inWords: '64; for a gateway, 64 for each pilot that its file allows',
  },
  isolation: oneOf(
    '--isolation <how>',
    'whether compilers and workers run in a box; auto: where one works; required: no service without one',
    {
      choices: ['auto', 'none', 'required'],
      otherwise: 'auto',
    },
  ),
  emulator: flag('--no-emulator', 'serve GPUs only: no kernel code runs on the CPU', { otherwise: always(true) }),
  emulatorEngine: oneOf(
    '--emulator-engine <engine>',
    "the emulator's engine: PTX made by nvcc, NVRTC or clang, or the C++ compiler's code on fibres; auto: PTX if one of the three makes it",
    { choices: ENGINES_WANTED, otherwise: DEFAULT_ENGINE },
  ),
  headers: {
    flags: '--headers <name=folder...>',
    about:
      'headers that kernels may include, for nvcc, for example cutlass=/opt/cutlass/include; its digest is in each result',
    read: (...trees: string[]) => parseHeaderTrees(trees),
    otherwise: () => parseHeaderTrees([]),
  },
  allowRoot: flag('--allow-root', 'serve as root, although boxes and limits then protect less', {
    variable: 'FLASHCORE_ALLOW_ROOT',
  }),
  reflection: flag('--reflection', 'list the API to every accepted client; always on for this machine'),
  maxStreamsPerClient: {
    flags: '--max-streams-per-client <streams>',
    about: 'streams of one client open at once; the oldest idle one ends',
    read: count,
    otherwise: always(256),
    inWords: '256',
  },
  rates: {
    flags: '--usd-per-hour <device=rate...>',
    about: 'price of a device, for example "NVIDIA L4=0.68"; the variable separates several by ";"',
    variable: 'FLASHCORE_USD_PER_HOUR',
    read: (...rates: string[]) => parseRates(rates),
    otherwise: () => parseRates([]),
  },
  metrics: {
    flags: '--metrics <address>',
    about: 'serve metrics for Prometheus there, on this machine only, for example 127.0.0.1:9464',
    read: metricsAddress,
    otherwise: none<ListenAddress>(),
  },
  logLevel: oneOf('--log-level <level>', 'level of the log, which is JSON lines on stderr', {
    choices: ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
    variable: 'FLASHCORE_LOG_LEVEL',
    otherwise: 'info',
  }),
} satisfies Table;

/** Limits on what the processes of one box use together: one compilation, or one kernel on the emulator. */
const BOX_LIMITS = {
  memoryBytes: {
    flags: '--box-memory-mib <MiB>',
    about: 'memory for one compilation or one kernel on the emulator, with all its processes; needs a cgroup',
    read: (given: string) => within({ least: LEAST_BOX_MIB, most: 2 ** 24, integer: true })(given) * MIB,
    otherwise: () => defaultLimits().memoryBytes,
    inWords: '3/4 of the host',
  },
  processes: {
    flags: '--box-processes <processes>',
    about: 'processes of one compilation or kernel; needs a cgroup',
    read: count,
    otherwise: () => defaultLimits().processes,
    inWords: '1024',
  },
  cpus: {
    flags: '--box-cpus <processors>',
    about: 'processors of one compilation or kernel, 0.5 for half of one; needs a cgroup',
    read: within({ least: 0.1, most: 4096 }),
    otherwise: none<number>(),
    inWords: 'all',
  },
} satisfies Table;

/** Limits for each client with credentials. */
const QUOTAS = {
  jobs: {
    flags: '--max-jobs-per-client <jobs>',
    about: 'with TLS: how many jobs of one client may wait and run at once',
    read: count,
    otherwise: ({ devices }: Facts) => 16 * devices,
    inWords: '16; for a gateway, 16 for each pilot',
    needsTls: true,
  },
  callsPerSecond: {
    flags: '--max-calls-per-second <calls>',
    about: 'with TLS: calls that one client may make on average',
    read: count,
    otherwise: always(50),
    inWords: '50',
    needsTls: true,
  },
  uploadMibPerHour: {
    flags: '--max-upload-mib-per-hour <MiB>',
    about: 'with TLS: sources that one client may upload',
    read: count,
    otherwise: always(256),
    inWords: '256',
    needsTls: true,
  },
  deviceHoursPerDay: {
    flags: '--max-device-hours-per-day <hours>',
    about: "with TLS: device time of one client's jobs, used in the last 24 hours or still promised by max_run_seconds",
    read: count,
    otherwise: ({ devices }: Facts) => 24 * devices,
    inWords: '24; for a gateway, 24 for each pilot',
    needsTls: true,
  },
} satisfies Table;

const SECURITY = {
  folder: {
    flags: '--tls <folder>',
    about: 'serve TLS with ca.crt, server.crt and server.key; required beyond this machine',
    read: (folder: string) => resolve(folder),
    otherwise: none<string>(),
    inWords: 'tls/ in the data folder',
  },
  clients: oneOf('--clients <how>', 'with TLS: how clients show who they are', {
    choices: ['certificate', 'token'],
    otherwise: 'certificate',
    needsTls: true,
  }),
} satisfies Table;

/** The host's own settings, mostly given by environment variables. */
const HOST = {
  libraryCache: { variable: 'FLASHCORE_LIBRARY_CACHE', read: text, otherwise: none<string>() },
  buildCache: { variable: 'FLASHCORE_BUILD_CACHE', read: text, otherwise: none<string>() },
  python: { variable: 'FLASHCORE_PYTHON', read: text, otherwise: always('python3') },
  /** undefined: rivals/built of the repository. */
  rivals: { variable: 'FLASHCORE_RIVALS', read: (folder: string) => resolve(folder), otherwise: none<string>() },
  vectors: {
    flags: '--emulator-vectors <path>',
    about: `vector path of the emulator's PTX engine: ${VECTORS_WANTED.join(', ')}`,
    variable: 'FLASHCORE_EMULATOR_VECTORS',
    read: vectorPath,
    otherwise: (): VectorsWanted => 'auto',
    inWords: 'auto',
  },
  /** The number of emulated devices, parsed as libcuda_emu.so parses it. */
  emulatedDevices: {
    variable: 'FLASHCORE_EMULATOR_DEVICES',
    read: (given: string) => Math.min(MAX_EMULATED_DEVICES, Math.max(1, Number.parseInt(given, 10) || 1)),
    otherwise: always(1),
  },
} satisfies Table;

const TABLES: readonly Table[] = [OPTIONS, BOX_LIMITS, SECURITY, QUOTAS, HOST];
const rows = (): Row<unknown>[] => TABLES.flatMap((table) => Object.values(table));

/** Adds the options that serve, gateway and pilot share. */
export function addServeOptions(command: Command): Command {
  for (const { flags, about, variable, inWords } of rows()) {
    if (flags === undefined) continue;
    const notes = [variable && `$${variable}`, inWords && `default: ${inWords}`].filter(Boolean);
    command.addOption(new Option(flags, notes.length === 0 ? about : `${about} (${notes.join('; ')})`));
  }
  return command;
}

/** Flags that are not in the table, because only some of the commands have them. */
type OtherFlags = KeepFlags & { slurm?: string; kubernetes?: string; gateway?: string; tlsCa?: string };

export type ServeOptions = ReturnType<typeof optionsOf>;

/** The options that the command's flags and the environment give. Errors: UsageError. */
export function optionsOf(command: Command, place: Omit<Facts, 'devices'>) {
  const flags = command.opts<OtherFlags>();
  const fleet = fleetOf(command, flags);
  const devices = fleet === undefined ? 1 : fleet.partitions.reduce((sum, { max }) => sum + max, 0);
  const read = <Rows extends Table>(table: Rows): ValuesOf<Rows> => valuesOf(table, command, { ...place, devices });
  const options = read(OPTIONS);
  const { dataDirectory, embedded } = options;
  const address = options.address ?? (embedded ? undefined : parseListenAddress(DEFAULT_ADDRESS));
  const exposed = address !== undefined && isExposed(address) ? address : undefined;
  const { cpus, ...boxLimits } = read(BOX_LIMITS);
  const security = securityOf(read(SECURITY), dataDirectory, exposed);
  if (!security) requireTlsFor(command);
  return {
    ...options,
    /** undefined: the Unix socket of the data folder (embedded). */
    address,
    reflection: !exposed || options.reflection,
    boxLimits: { ...boxLimits, ...(cpus !== undefined && { cpus }) },
    quotas: read(QUOTAS),
    /** TLS, and how clients show who they are; undefined: plain text, for this machine only. */
    security,
    retention: policyOf(flags),
    host: read(HOST) as HostSettings,
    /** The cluster that runs a gateway's jobs; undefined if this host runs them. */
    fleet,
    /**
     * The gateway that this runner gets its jobs from, and that gateway's authority; undefined: jobs come from clients.
     */
    pilot: flags.gateway === undefined ? undefined : { gateway: flags.gateway, authority: flags.tlsCa },
  };
}

/** Errors: UsageError if a gateway has no cluster, or the file is wrong. */
function fleetOf(command: Command, { slurm, kubernetes }: OtherFlags): FleetFile | undefined {
  if (slurm !== undefined) return readFleetFile(slurm, 'slurm');
  if (kubernetes !== undefined) return readFleetFile(kubernetes, 'kubernetes');
  if (command.name() === 'gateway') throw new UsageError('Give --slurm <file> or --kubernetes <file>: the cluster');
  return undefined;
}

const DEFAULT_ADDRESS = OPTIONS.address.inWords;

function valuesOf<Rows extends Table>(table: Rows, command: Command, facts: Facts): ValuesOf<Rows> {
  return Object.fromEntries(
    Object.entries(table).map(([name, row]) => [name, valueOf(row, command, facts)]),
  ) as ValuesOf<Rows>;
}

function valueOf({ flags, variable, read, otherwise }: Row<unknown>, command: Command, facts: Facts): unknown {
  const option = flags === undefined ? undefined : new Option(flags);
  const from = (source: string, texts: string[]): unknown => {
    try {
      return read(...texts);
    } catch (error) {
      if (error instanceof RangeError) throw new UsageError(`${source}: ${error.message}`);
      throw error;
    }
  };
  const given = option && isGiven(command, option) ? (command.getOptionValue(option.attributeName()) as unknown) : null;
  if (option && given !== null) return from(option.long!, textsOf(given));
  const set = variable === undefined ? undefined : facts.environment[variable];
  return set ? from(variable!, [set]) : otherwise(facts);
}

const isGiven = (command: Command, option: Option): boolean =>
  command.getOptionValueSource(option.attributeName()) === 'cli';

/** Texts of a value from commander, which is a list, a text, or a boolean for a flag without a value. */
function textsOf(given: unknown): string[] {
  if (typeof given === 'boolean') return [given ? '1' : '0'];
  return Array.isArray(given) ? given.map(String) : [String(given)];
}

function vectorPath(given: string): VectorsWanted {
  const wanted = chosen(VECTORS_WANTED, given);
  chooseVectorPath(wanted, hostProcessorFeatures());
  return wanted;
}

function metricsAddress(given: string): ListenAddress {
  const address = parseListenAddress(given);
  if (address.kind === 'tcp' && !isExposed(address)) return address;
  throw new RangeError(
    `must be an address of this machine, as in 127.0.0.1:9464, because metrics ask for no credential, got "${given}"`,
  );
}

function securityOf(
  { folder: given, clients }: ValuesOf<typeof SECURITY>,
  dataDirectory: string,
  exposed: ListenAddress | undefined,
) {
  if (given === undefined && !exposed) return undefined;
  const folder = given ?? join(dataDirectory, 'tls');
  if (exposed && !existsSync(join(folder, 'server.crt'))) {
    throw new UsageError(
      `${formatAddress(exposed)} is open to other machines, this runner runs the code that it is sent, and there is no TLS certificate in ${folder}: make certificates with "flashcore-runner tls init --host <name of this machine>", or listen on 127.0.0.1 and come through ssh -L`,
    );
  }
  if (clients === 'token' && new TokenFile(dataDirectory).list().length === 0)
    throw new UsageError(
      'There is no token, so no client could connect: make one with "flashcore-runner token add <name>"',
    );
  return { folder, clients };
}

/** Errors: UsageError if a given flag can't work without TLS. */
function requireTlsFor(command: Command): void {
  const idle = rows().flatMap(({ flags, needsTls }) => {
    const option = flags !== undefined && needsTls ? new Option(flags) : undefined;
    return option && isGiven(command, option) ? [option.long!] : [];
  });
  if (idle.length > 0)
    throw new UsageError(
      `${idle.join(', ')}: without TLS every caller is the client "local", with full rights and no quota: give --tls <folder> too, or leave ${idle.length > 1 ? 'them' : 'it'} out`,
    );
}

/** Options of a runner: the user's, and those of the program that starts it. */
export interface RunnerOptions
  extends Omit<ServeOptions, 'problemFolders' | 'fleet' | 'pilot'>, Partial<Pick<ServeOptions, 'fleet' | 'pilot'>> {
  version: string;
  /** Digest of the runner's own code. */
  buildId: string;
  repositoryRoot: string;
  logger: Logger;
  createPlanner: (options: PlannerOptions) => JobPlanner;
  /** Groups the processes of a sandbox, given the data folder's real path; default: no groups. */
  findGroups?: (dataDirectory: string) => ProcessGroups;
  /** Limits on streams other than the per-client limit, which is an option of serve. */
  streams?: Partial<StreamLimits>;
  /** Time limit for a connection to begin; default 10 s. */
  beginWithinMs?: number;
  /** The owner of a job; default: its caller. */
  ownerOf?: OwnerOf;
  /** The receiver of the spans of ended jobs; default: none. */
  traces?: TraceTarget | undefined;
}
