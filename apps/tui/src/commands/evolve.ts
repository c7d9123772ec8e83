import { randomUUID } from 'node:crypto';
import type { RunnerClient } from '@flashcore/shared/client';
import { FlashcoreError, type Device } from '@flashcore/shared/contract';
import { readNotes } from '@flashcore/shared/kernels';
import { experimentSettings, dollars, variantSettings, integer, positive, type JobCommandOptions } from './options.ts';
import { evolve, isComplete } from '../search/evolve.ts';
import { manifestOf, readSource, sourceBytes, MAX_SOURCE_BYTES } from '../search/kernel-source.ts';
import { CONFIGS, type SearchConfig } from '../search/population.ts';
import { protocolSchemas } from '../search/protocol.ts';
import { searchLines, summaryOf, trialLine } from '../search/search-report.ts';
import { SearchStore, searchIds, type SearchPlan } from '../search/search-store.ts';
import type { Trial } from '../search/trial.ts';
import { sanitize } from '../present/cells/cell-text.ts';
import type { CommandContext } from './context.ts';
import { parseKernelArgument, type KernelArgument } from './kernel-argument.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

export interface EvolveCommandOptions extends Omit<JobCommandOptions, 'seed' | 'config'> {
  readonly proposer?: string;
  readonly proposerSeconds?: string;
  readonly config?: SearchConfig;
  readonly trials?: string;
  readonly population?: string;
  readonly islands?: string;
  readonly inFlight?: string;
  readonly seed?: string;
  readonly maxUsd?: string;
  readonly maxDeviceSeconds?: string;
  readonly patience?: string;
  readonly resume?: string;
  readonly show?: string;
  readonly schema?: boolean;
}

const DEFAULTS = { trials: 45, population: 5, islands: 1, proposerSeconds: 300, seed: 1, jobSeconds: 900 } as const;

/** Limit on islands: the number of jobs that a runner allows a user by default. */
const MAX_ISLANDS = 16;

/** The options for the experiments, without --seed and --config, which apply to the search. */
const experimentOptions = ({ seed: _seed, config: _config, ...options }: EvolveCommandOptions): JobCommandOptions =>
  options;

/** Options of the experiments that are stored with a search, so that it can be resumed. */
const KEPT = ['plan', 'shape', 'seeds', 'samples', 'maxSeconds', 'device', 'arch', 'maxRegisters', 'fastMath'] as const;

/**
 * Starts a search with `fa-tui evolve <kernel> --proposer CMD`, resumes one with `--resume ID`, shows one with `--show
 * ID`, and prints the proposer's schema with `--schema`.
 */
export async function evolveCommand(
  kernelText: string,
  options: EvolveCommandOptions,
  context: CommandContext,
): Promise<ExitCode> {
  const { environment } = context.surroundings;
  const inFlight = integer('--in-flight', options.inFlight, 1, MAX_ISLANDS) ?? MAX_ISLANDS;
  if (options.schema) {
    context.document(protocolSchemas());
    return ExitCode.PASSED;
  }
  if (options.show !== undefined) {
    const store = openSearch(environment, options.show);
    return report(store, store.trials(), context);
  }
  if (options.resume !== undefined) {
    const store = openSearch(environment, options.resume);
    return context.withStartedRunner((connection) => {
      requireRate(deviceOf(connection.client, kept(store).device ?? ''), store.plan.maxUsd);
      return run({ store, connection, inFlight }, context);
    });
  }
  const start = planOf(kernelText, options);
  const kernel = await parseKernelArgument(kernelText);
  if (kernel.kind === 'build')
    throw new UsageError(`${kernelText}: must be a kernel or a folder, whose sources can be read`);
  return context.withStartedRunner(async (connection) => {
    requireRate(deviceOf(connection.client, options.device ?? ''), start.maxUsd);
    const store = SearchStore.create(environment, { ...start, ...(await rootOf(kernel, options, connection.client)) });
    return run({ store, connection, inFlight }, context);
  });
}

function openSearch(environment: NodeJS.ProcessEnv, id: string): SearchStore {
  try {
    return SearchStore.open(environment, id);
  } catch (error) {
    if (!(error instanceof FlashcoreError)) throw error;
    const known = searchIds(environment);
    throw new UsageError(
      `${error.message}${known.length > 0 ? `; there are ${known.slice(-5).join(', ')}` : ', and there is none yet'}`,
    );
  }
}

/** The plan of a search, from the command line. Errors: UsageError. */
function planOf(
  kernel: string,
  options: EvolveCommandOptions,
): Omit<SearchPlan, 'version' | 'kernelId' | 'root' | 'notes'> {
  if (kernel === '') throw new UsageError('A kernel or a folder must be named, or a search: --resume ID, --show ID');
  if (!options.proposer)
    throw new UsageError(
      '--proposer COMMAND is needed, for example --proposer "node examples/proposers/parameters.mjs"',
    );
  variantSettings(experimentOptions(options));
  settingsOf(experimentOptions(options));
  return {
    id: `${new Date().toISOString().slice(0, 10)}-${randomUUID().slice(0, 8)}`,
    kernel,
    proposer: options.proposer,
    proposerSeconds: positive('--proposer-seconds', options.proposerSeconds) ?? DEFAULTS.proposerSeconds,
    config: options.config ?? CONFIGS[0],
    trials: integer('--trials', options.trials, 1, 10_000) ?? DEFAULTS.trials,
    population: integer('--population', options.population, 2, 100) ?? DEFAULTS.population,
    islands: integer('--islands', options.islands, 1, MAX_ISLANDS) ?? DEFAULTS.islands,
    seed: integer('--seed', options.seed, 0, 999_999_999) ?? DEFAULTS.seed,
    maxUsd: dollars('--max-usd', options.maxUsd) ?? null,
    maxDeviceSeconds: positive('--max-device-seconds', options.maxDeviceSeconds) ?? null,
    patience: integer('--patience', options.patience, 1, 10_000),
    options: Object.fromEntries(KEPT.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]]))),
  };
}

/** The kernel that the search starts from. */
async function rootOf(
  kernel: Exclude<KernelArgument, { kind: 'build' }>,
  options: EvolveCommandOptions,
  client: RunnerClient,
): Promise<Pick<SearchPlan, 'kernelId' | 'root' | 'notes'>> {
  const files = await readSource(kernel, client);
  if (sourceBytes(files) > MAX_SOURCE_BYTES)
    throw new UsageError(`${kernel.id} has ${sourceBytes(files)} bytes of source, ${MAX_SOURCE_BYTES} are the most`);
  const manifest = manifestOf(files);
  const { parameters } = variantSettings({ ...experimentOptions(options) });
  const asked = Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, Number(value)]));
  return { kernelId: manifest.id, root: { files, parameters: asked }, notes: await notesOf(kernel, client) };
}

async function notesOf(kernel: Exclude<KernelArgument, { kind: 'build' }>, client: RunnerClient): Promise<string> {
  if (kernel.kind === 'id') return (await client.getKernel({ kernelId: kernel.id })).kernel?.notes ?? '';
  return readNotes(kernel.folder);
}

const settingsOf = (options: JobCommandOptions) => experimentSettings(options, { queue: 0, run: DEFAULTS.jobSeconds });

interface SearchToRun {
  store: SearchStore;
  connection: Parameters<Parameters<CommandContext['withRunner']>[0]>[0];
  inFlight: number;
}

async function run({ store, connection, inFlight }: SearchToRun, context: CommandContext): Promise<ExitCode> {
  const { environment, stderr } = context.surroundings;
  const options = kept(store);
  const settings = settingsOf(options);
  const controller = new AbortController();
  const stop = (): void => controller.abort(new DOMException('stopped', 'AbortError'));
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop);
  context.note(
    `search ${store.plan.id}, in ${store.folder}; any client sees it with fa-tui history --label search=${store.plan.id}`,
  );
  try {
    const trials = await store.locked(() =>
      evolve({
        store,
        connection,
        device: deviceOf(connection.client, settings.deviceId),
        settings,
        variant: variantSettings(options),
        environment,
        inFlight,
        signal: controller.signal,
        onTrial: (trial: Trial) => context.note(trialLine(trial)),
        onNote: (text) => context.note(text),
      }),
    );
    return report(store, trials, context);
  } catch (error) {
    stderr.write(`The search can go on: fa-tui evolve --resume ${store.plan.id}\n`);
    if (controller.signal.aborted) return ExitCode.INTERRUPTED;
    throw error;
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, stop);
  }
}

const kept = ({ plan }: SearchStore): JobCommandOptions => plan.options as unknown as JobCommandOptions;

/**
 * Requires that the price of the device is known if dollars are limited. The emulator is free: only the proposer's cost
 * adds up. Errors: UsageError.
 */
export function requireRate({ deviceId, name, usdPerHour }: Device, maxUsd: number | null): void {
  if (maxUsd === null || usdPerHour !== undefined) return;
  throw new UsageError(
    `--max-usd: needs a device whose rate is known, and that of ${deviceId} is not: set --usd-per-hour "${name}=2.50" where the runner starts, or give --max-device-seconds instead`,
  );
}

function deviceOf({ host }: RunnerClient, deviceId: string): Device {
  const device = host.devices.find((each) => each.deviceId === deviceId) ?? host.devices[0];
  if (!device) throw new FlashcoreError('DEVICE_UNAVAILABLE', {}, 'The runner has no device');
  return device;
}

/** Prints the search. Returns 0 if its root was correct, and 1 if the kernel itself is wrong. */
function report(store: SearchStore, trials: readonly Trial[], context: CommandContext): ExitCode {
  const [root] = trials;
  if (root === undefined) {
    context.report([`Search ${store.plan.id} has no trial yet`]);
    return ExitCode.PASSED;
  }
  if (root.status !== 'root') {
    context.surroundings.stderr.write(
      `error: ${store.plan.kernelId} itself is not correct, so a search cannot start from it: ${sanitize(root.why)}\n`,
    );
    return ExitCode.FAILED;
  }
  const summary = summaryOf(store.plan, trials);
  if (context.options.json) context.document(summary);
  else context.report(searchLines(summary, { unicode: !context.format.ascii }).map(sanitize));
  if (!isComplete(store, trials)) context.note(`Not finished: fa-tui evolve --resume ${store.plan.id}`);
  return ExitCode.PASSED;
}
