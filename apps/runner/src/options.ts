import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { didYouMean } from '@flashcore/shared/text';
import { addCompileCommand } from './build/compile-command.ts';
import { type NamedFolder, parseHeaderTrees } from './build/header-trees.ts';
import { DEFAULT_ENGINE, ENGINES_WANTED, type EngineWanted } from './build/emulator-engine.ts';
import { chooseVectorPath, hostProcessorFeatures, VECTORS_WANTED, type VectorsWanted } from './build/vector-path.ts';
import type { IsolationWanted } from './sandbox/find-box.ts';
import { defaultLimits, type GroupLimits } from './sandbox/groups.ts';
import { addAccessCommands } from './access/access-commands.ts';
import { DEFAULT_SCRATCH_GIB, readFleetFile, type FleetFile } from './fleet/fleet-file.ts';
import type { QuotaLimits } from './access/quotas.ts';
import { TokenFile } from './access/token-file.ts';
import { parseRates, type DeviceRates } from './experiment/cost.ts';
import { addOperationCommands, keepOptions, policyOf, type KeepFlags } from './operation/host-commands.ts';
import { KEEP_ALL, type RetentionPolicy } from './operation/retention.ts';
import { formatAddress, isExposed, parseListenAddress, type ListenAddress } from './rpc/address.ts';
import { UsageError } from './usage-error.ts';
import type { HostSettings } from './host-settings.ts';

/** What `flashcore-runner serve` was asked for, with every default filled in. */
export interface ServeOptions {
  /** Undefined: a Unix socket that belongs to the data directory (embedded). */
  address: ListenAddress | undefined;
  dataDirectory: string;
  kernelsDirectory: string;
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
  /** What the emulator runs kernels with: fibres, PTX, or PTX where nvcc or clang makes it. */
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

const MAX_EMULATED_DEVICES = 8;
const DEFAULT_ADDRESS = '127.0.0.1:50051';

export interface CommandLine {
  version: string;
  /** The repository, or the bundle, that the runner is part of: kernels/ and proto/ lie there. */
  repositoryRoot: string;
  environment: NodeJS.ProcessEnv;
  /** Takes the work of a command other than serve. */
  defer?: (work: () => Promise<void>) => void;
}

/**
 * Reads the command line; undefined when it only asked for help or the version, which was then printed. Throws
 * UsageError.
 */
export function parseOptions(
  argv: readonly string[],
  { version, repositoryRoot, environment, defer = () => undefined }: CommandLine,
): ServeOptions | undefined {
  let options: ServeOptions | undefined;
  const defaultData = environment['FLASHCORE_HOME'] || join(homedir(), '.flashcore');
  const program = new Command('flashcore-runner')
    .description('Builds, verifies, benchmarks and profiles attention kernels for its clients')
    .version(version)
    .exitOverride();
  program.configureOutput({ outputError: () => undefined }); // UsageError carries the text.
  const say = (line: string): void => void process.stdout.write(`${line}\n`);
  const serving = (flags: Flags, command: Command): void => {
    options = optionsOf(flags, environment);
    if (!options.security)
      requireTlsFor(
        command.options
          .filter((option) => command.getOptionValueSource(option.attributeName()) === 'cli')
          .map(({ long }) => long!),
      );
  };
  const serve = program
    .command('serve', { isDefault: true })
    .description('serve until SIGTERM or SIGINT; the default command');
  addServeOptions(serve, { defaultData, repositoryRoot }).action(serving);
  const gateway = program
    .command('gateway')
    .description('serve a Slurm cluster: jobs run on its nodes (docs/fleet.md)')
    .requiredOption('--slurm <file>', 'the cluster: partitions, pilots, how nodes reach the gateway');
  addServeOptions(gateway, { defaultData, repositoryRoot }).action(serving);
  const pilot = program
    .command('pilot', { hidden: true })
    .description('take jobs from a gateway, whose scheduler starts it on a node')
    .requiredOption('--gateway <address>', 'host:port where the gateway lets pilots register')
    .option('--tls-ca <file>', "certificate of the authority that signed the gateway's");
  addServeOptions(pilot, { defaultData, repositoryRoot }).action(serving);
  for (const command of [serve, gateway]) keepOptions(command, KEEP_ALL);
  // The gateway has what is to last.
  keepOptions(pilot, { eventsDays: 1, filesDays: 30, artifactsGib: DEFAULT_SCRATCH_GIB });
  addAccessCommands(program, { defaultData, say });
  addOperationCommands(program, { defaultData, say, defer });
  addCompileCommand(program, { repositoryRoot, defer });
  try {
    requireKnown(argv[0], program);
    program.parse(argv, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return undefined;
    throw new UsageError(error.message.replace(/^error: /, ''));
  }
  return options;
}

/** What serve and gateway have in common. */
function addServeOptions(
  command: Command,
  { defaultData, repositoryRoot }: { defaultData: string; repositoryRoot: string },
): Command {
  return command
    .option(
      '--address <address>',
      `where to listen: host:port of this machine, or unix:/path (default: ${DEFAULT_ADDRESS})`,
    )
    .addOption(
      new Option('--data <folder>', 'jobs, artifacts and sources').default(
        defaultData,
        '$FLASHCORE_HOME, or ~/.flashcore',
      ),
    )
    .option('--kernels <folder>', "the runner's kernels", join(repositoryRoot, 'kernels'))
    .option('--embedded', 'for one client: listen on a Unix socket, and exit when unused')
    .option('--idle-exit-seconds <seconds>', 'embedded: exit after this long without a client or job', seconds, 30)
    .option('--grace-seconds <seconds>', 'how long running jobs may go on after SIGTERM', seconds, 10)
    .option(
      '--held-out <file>',
      'shapes that clients never see, on which leaders of searches are tried ($FLASHCORE_HELD_OUT); docs/search.md',
    )
    .option('--max-queued <jobs>', 'how many jobs may wait at once', count, 64)
    .addOption(
      new Option(
        '--isolation <how>',
        'run compilers and workers in a box: where that works, never, or refuse to serve without one',
      )
        .choices(['auto', 'none', 'required'])
        .default('auto'),
    )
    .option(
      '--box-memory-mib <MiB>',
      'memory for one compilation or one kernel on the emulator, with all its processes; needs a cgroup (default: 3/4 of the host)',
      mebibytes,
    )
    .option('--box-processes <processes>', 'processes for one, likewise', count, 1024)
    .option('--box-cpus <processors>', 'processors for one, likewise; 0.5 is half of one (default: all)', processors)
    .option('--no-emulator', 'serve GPUs only: no kernel code runs on the CPU')
    .addOption(
      new Option(
        '--emulator-engine <engine>',
        'what the emulator runs: PTX of nvcc or clang, code of the C++ compiler on fibres, or (auto) PTX where there is an nvcc or clang that makes it',
      )
        .choices(ENGINES_WANTED)
        .default(DEFAULT_ENGINE),
    )
    .option(
      '--headers <name=folder...>',
      'what kernels may include, for nvcc, for example cutlass=/opt/cutlass/include; its digest is in each result',
    )
    .option('--allow-root', 'serve as root, where boxes and limits hold less ($FLASHCORE_ALLOW_ROOT=1 does the same)')
    .option(
      '--tls <folder>',
      'serve TLS with ca.crt, server.crt and server.key; always beyond this machine (default: tls/ in the data folder)',
    )
    .addOption(
      new Option('--clients <how>', 'with TLS: how clients show who they are')
        .choices(['certificate', 'token'])
        .default('certificate'),
    )
    .option('--max-jobs-per-client <jobs>', 'with TLS: how many jobs of one client may wait and run at once', count, 16)
    .option('--max-calls-per-second <calls>', 'with TLS: sustained calls of one client', count, 50)
    .option('--max-upload-mib-per-hour <MiB>', 'with TLS: sources of one client', count, 256)
    .option(
      '--max-device-hours-per-day <hours>',
      "with TLS: device time of one client's jobs, used in the last 24 hours or still promised (max_run_seconds)",
      count,
      24,
    )
    .option(
      '--max-streams-per-client <streams>',
      'streams of one client open at once; the oldest idle one ends',
      count,
      256,
    )
    .addOption(
      new Option(
        '--usd-per-hour <device=rate...>',
        'what a device costs, for example "NVIDIA L4=0.68"; several in $FLASHCORE_USD_PER_HOUR are separated by ";"',
      ),
    )
    .option(
      '--metrics <address>',
      'serve metrics for Prometheus there, on this machine only, for example 127.0.0.1:9464',
    )
    .addOption(
      new Option(
        '--log-level <level>',
        'level of the log on stderr, in JSON lines (default: $FLASHCORE_LOG_LEVEL, or info)',
      ).choices(['trace', 'debug', 'info', 'warn', 'error', 'fatal']),
    )
    .option('--reflection', 'list the API to any client that is let in; always on for this machine');
}

/** serve is what is meant without a command: it would take an unknown one for an argument of its own. */
function requireKnown(first: string | undefined, program: Command): void {
  const known = [...program.commands.map((command) => command.name()), 'help'];
  if (first === undefined || first.startsWith('-') || known.includes(first)) return;
  throw new UsageError(`Unknown command "${first}"${didYouMean(first, known) || '; --help lists them'}`);
}

interface Flags extends KeepFlags {
  address?: string;
  data: string;
  kernels: string;
  embedded?: boolean;
  idleExitSeconds: number;
  graceSeconds: number;
  maxQueued: number;
  isolation: IsolationWanted;
  boxMemoryMib?: number;
  boxProcesses: number;
  boxCpus?: number;
  emulator: boolean;
  emulatorEngine: EngineWanted;
  headers?: string[];
  allowRoot?: boolean;
  tls?: string;
  clients: ServeSecurity['clients'];
  reflection?: boolean;
  maxJobsPerClient: number;
  maxCallsPerSecond: number;
  maxUploadMibPerHour: number;
  maxDeviceHoursPerDay: number;
  maxStreamsPerClient: number;
  usdPerHour?: string[];
  heldOut?: string;
  metrics?: string;
  logLevel?: string;
  slurm?: string;
  gateway?: string;
  tlsCa?: string;
}

function optionsOf(flags: Flags, environment: NodeJS.ProcessEnv): ServeOptions {
  const text = flags.address ?? (flags.embedded ? undefined : DEFAULT_ADDRESS);
  const address = text === undefined ? undefined : parseListenAddress(text);
  const exposed = address !== undefined && isExposed(address);
  return {
    address,
    dataDirectory: resolve(flags.data),
    kernelsDirectory: resolve(flags.kernels),
    embedded: flags.embedded ?? false,
    idleExitSeconds: flags.idleExitSeconds,
    graceSeconds: flags.graceSeconds,
    maxQueued: flags.maxQueued,
    maxStreamsPerClient: flags.maxStreamsPerClient,
    isolation: flags.isolation,
    boxLimits: {
      ...defaultLimits(),
      ...(flags.boxMemoryMib !== undefined && { memoryBytes: flags.boxMemoryMib * 1024 ** 2 }),
      processes: flags.boxProcesses,
      ...(flags.boxCpus !== undefined && { cpus: flags.boxCpus }),
    },
    emulator: flags.emulator,
    emulatorEngine: flags.emulatorEngine,
    headers: parseHeaderTrees(flags.headers ?? []),
    allowRoot: flags.allowRoot ?? environment['FLASHCORE_ALLOW_ROOT'] === '1',
    security: securityOf(flags, exposed && address),
    reflection: !exposed || (flags.reflection ?? false),
    quotas: {
      jobs: flags.maxJobsPerClient,
      callsPerSecond: flags.maxCallsPerSecond,
      uploadMibPerHour: flags.maxUploadMibPerHour,
      deviceHoursPerDay: flags.maxDeviceHoursPerDay,
    },
    rates: ratesOf(flags.usdPerHour ?? [environment['FLASHCORE_USD_PER_HOUR'] ?? '']),
    heldOut: flags.heldOut ?? (environment['FLASHCORE_HELD_OUT'] || undefined),
    metrics: flags.metrics === undefined ? undefined : metricsAddress(flags.metrics),
    retention: policyOf(flags),
    logLevel: flags.logLevel ?? environment['FLASHCORE_LOG_LEVEL'] ?? 'info',
    host: hostSettings(environment),
    fleet: flags.slurm === undefined ? undefined : readFleetFile(flags.slurm),
    pilot: flags.gateway === undefined ? undefined : { gateway: flags.gateway, authority: flags.tlsCa },
  };
}

/**
 * FLASHCORE_LIBRARY_CACHE, FLASHCORE_BUILD_CACHE, FLASHCORE_PYTHON, FLASHCORE_EMULATOR_DEVICES (as libcuda_emu.so
 * counts them), FLASHCORE_EMULATOR_VECTORS. Errors: UsageError.
 */
function hostSettings(environment: NodeJS.ProcessEnv): HostSettings {
  const devices = Number.parseInt(environment['FLASHCORE_EMULATOR_DEVICES'] ?? '1', 10);
  return {
    libraryCache: environment['FLASHCORE_LIBRARY_CACHE'],
    buildCache: environment['FLASHCORE_BUILD_CACHE'] || undefined,
    python: environment['FLASHCORE_PYTHON'] || 'python3',
    vectors: vectorsOf(environment['FLASHCORE_EMULATOR_VECTORS'] || 'auto'),
    emulatedDevices: Math.min(MAX_EMULATED_DEVICES, Math.max(1, Number.isNaN(devices) ? 1 : devices)),
  };
}

function vectorsOf(text: string): VectorsWanted {
  const wanted = VECTORS_WANTED.find((each) => each === text);
  if (wanted === undefined)
    throw new UsageError(`FLASHCORE_EMULATOR_VECTORS=${text}: must be ${VECTORS_WANTED.join(', ')}`);
  try {
    chooseVectorPath(wanted, hostProcessorFeatures());
  } catch (error) {
    if (error instanceof RangeError) throw new UsageError(`FLASHCORE_EMULATOR_VECTORS=${text}: ${error.message}`);
    throw error;
  }
  return wanted;
}

function ratesOf(texts: readonly string[]): DeviceRates {
  try {
    return parseRates(texts);
  } catch (error) {
    if (error instanceof RangeError) throw new UsageError(`--usd-per-hour or FLASHCORE_USD_PER_HOUR: ${error.message}`);
    throw error;
  }
}

function metricsAddress(text: string): ListenAddress {
  const address = parseListenAddress(text);
  if (address.kind === 'tcp' && !isExposed(address)) return address;
  throw new UsageError(
    `--metrics ${text}: must be an address of this machine, as in 127.0.0.1:9464, because metrics ask for no credential`,
  );
}

function securityOf({ tls, data, clients }: Flags, exposed: ListenAddress | false): ServeSecurity | undefined {
  if (tls === undefined && !exposed) return undefined;
  const folder = resolve(tls ?? join(data, 'tls'));
  if (exposed && !existsSync(join(folder, 'server.crt'))) {
    throw new UsageError(
      `${formatAddress(exposed)} is open to other machines, this runner runs the code that it is sent, and there is no TLS certificate in ${folder}: make certificates with "flashcore-runner tls init --host <name of this machine>", or listen on 127.0.0.1 and come through ssh -L`,
    );
  }
  if (clients === 'token' && new TokenFile(resolve(data)).list().length === 0)
    throw new UsageError(
      'There is no token, and without one nobody is let in: make one with "flashcore-runner token add <name>"',
    );
  return { folder, clients };
}

/** What can't hold where everybody is the client "local". */
const NEEDS_TLS: readonly string[] = [
  '--clients',
  '--max-jobs-per-client',
  '--max-calls-per-second',
  '--max-upload-mib-per-hour',
  '--max-device-hours-per-day',
];

function requireTlsFor(given: readonly string[]): void {
  const idle = given.filter((name) => NEEDS_TLS.includes(name));
  if (idle.length > 0)
    throw new UsageError(
      `${idle.join(', ')}: without TLS whoever reaches this address is the client "local", may do all and has no quota: give --tls <folder> too, or leave ${idle.length > 1 ? 'them' : 'it'} out`,
    );
}

function seconds(text: string): number {
  const value = Number(text);
  if (!(value > 0 && value <= 86_400)) throw new InvalidArgumentError('wanted seconds, more than 0 and at most 86400');
  return value;
}

function count(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > 100_000)
    throw new InvalidArgumentError('wanted an integer of 1 to 100000');
  return value;
}

/** Less than a compiler takes would end every job. */
const LEAST_BOX_MIB = 512;

function mebibytes(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < LEAST_BOX_MIB || value > 2 ** 24)
    throw new InvalidArgumentError(`wanted an integer of ${LEAST_BOX_MIB} to ${2 ** 24}`);
  return value;
}

function processors(text: string): number {
  const value = Number(text);
  if (!(value >= 0.1 && value <= 4096)) throw new InvalidArgumentError('wanted processors, 0.1 to 4096');
  return value;
}
