import { join } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { DEFAULT_ENGINE, ENGINES_WANTED, type EngineWanted } from './build/emulator-engine.ts';
import type { KeepFlags } from './operation/host-commands.ts';
import type { IsolationWanted } from './sandbox/find-box.ts';
import type { ServeSecurity } from './serve-options.ts';

export const DEFAULT_ADDRESS = '127.0.0.1:50051';

/** Flags of serve, gateway and pilot, as commander parses them. */
export interface ServeFlags extends KeepFlags {
  address?: string;
  data: string;
  kernels: string;
  problems?: string[];
  embedded?: boolean;
  idleExitSeconds: number;
  graceSeconds: number;
  /** undefined here and in the two client limits below: the limit depends on the maximum number of devices. */
  maxQueued?: number;
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
  maxJobsPerClient?: number;
  maxCallsPerSecond: number;
  maxUploadMibPerHour: number;
  maxDeviceHoursPerDay?: number;
  maxStreamsPerClient: number;
  usdPerHour?: string[];
  heldOut?: string;
  metrics?: string;
  logLevel?: string;
  slurm?: string;
  gateway?: string;
  tlsCa?: string;
}

/** Adds the options that serve and gateway share. */
export function addServeOptions(
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
    .option(
      '--problems <folder...>',
      "folders of problems beside flashcore's own, a folder each in them ($FLASHCORE_PROBLEMS); docs/problems.md",
    )
    .option('--embedded', 'for one client: listen on a Unix socket, and exit when unused')
    .option('--idle-exit-seconds <seconds>', 'embedded: exit after this long without a client or job', seconds, 30)
    .option('--grace-seconds <seconds>', 'how long running jobs may go on after SIGTERM', seconds, 10)
    .option(
      '--held-out <file>',
      'shapes that clients never see, on which leaders of searches are tried ($FLASHCORE_HELD_OUT); docs/search.md',
    )
    .option(
      '--max-queued <jobs>',
      'how many jobs may wait at once (default: 64; for a gateway, 64 for each pilot that its file allows)',
      count,
    )
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
        'what the emulator runs: PTX of nvcc, NVRTC or clang, code of the C++ compiler on fibres, or (auto) PTX where one of the three makes it',
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
    .option(
      '--max-jobs-per-client <jobs>',
      'with TLS: how many jobs of one client may wait and run at once (default: 16, likewise)',
      count,
    )
    .option('--max-calls-per-second <calls>', 'with TLS: sustained calls of one client', count, 50)
    .option('--max-upload-mib-per-hour <MiB>', 'with TLS: sources of one client', count, 256)
    .option(
      '--max-device-hours-per-day <hours>',
      "with TLS: device time of one client's jobs, used in the last 24 hours or still promised by max_run_seconds (default: 24, likewise)",
      count,
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

/** With less than a compiler needs, every job would fail. */
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
