import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { TokenFile } from './access/token-file.ts';
import { parseHeaderTrees } from './build/header-trees.ts';
import { chooseVectorPath, hostProcessorFeatures, VECTORS_WANTED, type VectorsWanted } from './build/vector-path.ts';
import { parseRates, type DeviceRates } from './experiment/cost.ts';
import { readFleetFile } from './fleet/fleet-file.ts';
import type { HostSettings } from './host-settings.ts';
import { policyOf } from './operation/host-commands.ts';
import { formatAddress, isExposed, parseListenAddress, type ListenAddress } from './rpc/address.ts';
import { defaultLimits } from './sandbox/groups.ts';
import { DEFAULT_ADDRESS, type ServeFlags } from './serve-flags.ts';
import type { ServeOptions, ServeSecurity } from './serve-options.ts';
import { UsageError } from './usage-error.ts';

const MAX_EMULATED_DEVICES = 8;
/** The queue length at which a gateway's memory was measured (docs/fleet.md). */
const MOST_QUEUED = 100_000;

/** Makes options from flags and environment. Errors: UsageError. */
export function optionsOf(flags: ServeFlags, environment: NodeJS.ProcessEnv): ServeOptions {
  const text = flags.address ?? (flags.embedded ? undefined : DEFAULT_ADDRESS);
  const address = text === undefined ? undefined : parseListenAddress(text);
  const exposed = address !== undefined && isExposed(address);
  const fleet = flags.slurm === undefined ? undefined : readFleetFile(flags.slurm);
  const devices = fleet === undefined ? 1 : fleet.partitions.reduce((sum, { max }) => sum + max, 0);
  return {
    address,
    dataDirectory: resolve(flags.data),
    kernelsDirectory: resolve(flags.kernels),
    problemFolders: (flags.problems ?? []).map((folder) => resolve(folder)),
    embedded: flags.embedded ?? false,
    idleExitSeconds: flags.idleExitSeconds,
    graceSeconds: flags.graceSeconds,
    maxQueued: flags.maxQueued ?? Math.min(MOST_QUEUED, 64 * devices),
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
      jobs: flags.maxJobsPerClient ?? 16 * devices,
      callsPerSecond: flags.maxCallsPerSecond,
      uploadMibPerHour: flags.maxUploadMibPerHour,
      deviceHoursPerDay: flags.maxDeviceHoursPerDay ?? 24 * devices,
    },
    rates: ratesOf(flags.usdPerHour ?? [environment['FLASHCORE_USD_PER_HOUR'] ?? '']),
    heldOut: flags.heldOut ?? (environment['FLASHCORE_HELD_OUT'] || undefined),
    metrics: flags.metrics === undefined ? undefined : metricsAddress(flags.metrics),
    retention: policyOf(flags),
    logLevel: flags.logLevel ?? environment['FLASHCORE_LOG_LEVEL'] ?? 'info',
    host: hostSettings(environment),
    fleet,
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

function securityOf({ tls, data, clients }: ServeFlags, exposed: ListenAddress | false): ServeSecurity | undefined {
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

/** Flags that can't work if everybody is the client "local". */
const NEEDS_TLS: readonly string[] = [
  '--clients',
  '--max-jobs-per-client',
  '--max-calls-per-second',
  '--max-upload-mib-per-hour',
  '--max-device-hours-per-day',
];

/** Errors: UsageError if a given flag needs TLS. */
export function requireTlsFor(given: readonly string[]): void {
  const idle = given.filter((name) => NEEDS_TLS.includes(name));
  if (idle.length > 0)
    throw new UsageError(
      `${idle.join(', ')}: without TLS whoever reaches this address is the client "local", may do all and has no quota: give --tls <folder> too, or leave ${idle.length > 1 ? 'them' : 'it'} out`,
    );
}
