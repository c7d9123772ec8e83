import { create } from '@bufbuild/protobuf';
import {
  BenchmarkSettingsSchema,
  JobOptionsSchema,
  ProfileSettingsSchema,
  ToleranceSchema,
  VariantSchema,
  VerifySettingsSchema,
  type BenchmarkSettings,
  type JobOptions,
  type ProfileSettings,
  type Shape,
  type Variant,
  type VerifySettings,
} from '@flashcore/shared/contract';
import { readForeignText, whyUnreadable } from '@flashcore/shared/files';
import { parseCase } from '@flashcore/shared/kernels';
import { shortName } from '../present/words.ts';
import type { ExperimentSettings } from '../search/experiment-request.ts';
import type { TlsFlags } from '../connection/target.ts';
import type { ColorMode } from '../present/plain/report-format.ts';
import { UsageError } from '../exit-code.ts';

const MAX_GATES_BYTES = 64 * 1024;

/** Options of every command, in the form in which commander returns them. */
export interface GlobalOptions extends TlsFlags {
  readonly runner?: string;
  readonly startRunner?: boolean;
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly color: ColorMode;
  readonly ascii?: boolean;
  readonly inline?: boolean;
  readonly mouse?: boolean;
}

/**
 * Options of the commands that start a job, in the form in which commander returns them. Each command has only some of
 * them.
 */
export interface JobCommandOptions extends GlobalOptions {
  readonly shape?: string[];
  readonly seeds?: string;
  readonly seed?: string[];
  readonly tolerance?: string;
  readonly sanitize?: boolean;
  readonly set?: string[];
  readonly config?: string;
  readonly arch?: string;
  readonly maxRegisters?: string;
  readonly fastMath?: boolean;
  readonly keepPtx?: boolean;
  readonly keepSass?: boolean;
  readonly samples?: string;
  readonly maxSeconds?: string;
  /** The champion: a kernel's id or a folder; false if there is to be no comparison. */
  readonly champion?: string | false;
  /** Parameters of the champion. */
  readonly championSet?: string[];
  readonly metrics?: string;
  readonly device?: string;
  /** Labels of the job, NAME=VALUE. */
  readonly label?: string[];
  /** The id that the client gives to the request. */
  readonly requestId?: string;
  readonly restartInterrupted?: boolean;
  /** Name of a plan in the gates file. */
  readonly plan?: string;
  /** A gates file to use instead of the runner's. */
  readonly gates?: string;
  /** Case set to verify. */
  readonly cases?: string;
  /** Case set to benchmark. */
  readonly shapes?: string;
  readonly dtype?: string;
  /** Counters, by the profiler's names for them. */
  readonly metric?: string[];
  readonly legacyLoop?: boolean;
  /** rbk_config.yaml with shapes and iterations. */
  readonly rbk?: string;
  /** SDPA backends to measure. */
  readonly sdpa?: string[];
  /** Rivals to check and to measure. */
  readonly rivals?: string[];
  readonly fallback?: boolean;
  /** Only for watching: run the smallest case first after each save. */
  readonly quick?: boolean;
  readonly detach?: boolean;
  /** File for the job's events. */
  readonly record?: string;
  /** File for JUnit XML. */
  readonly junit?: string;
  /** File for Nsight Compute's report. */
  readonly save?: string;
  /** True to collect counters for each source line. */
  readonly lines?: boolean;
}

/**
 * A request's `options`. Because of the request id, a request that is sent twice after a broken connection starts only
 * one job. Errors: UsageError.
 */
export function jobSettings(options: JobCommandOptions): JobOptions {
  if (options.restartInterrupted && options.requestId === undefined)
    throw new UsageError('--restart-interrupted: give --request-id, the id that the job was asked for with');
  return create(JobOptionsSchema, {
    requestId: options.requestId ?? crypto.randomUUID(),
    restartInterrupted: options.restartInterrupted ?? false,
    deviceId: options.device ?? '',
    labels: labelSettings(options.label),
  });
}

/** Labels from the command line. The runner checks their names and values. */
export function labelSettings(labels: readonly string[] = []): Record<string, string> {
  const parsed = new Map<string, string>();
  for (const label of labels) {
    const separator = label.indexOf('=');
    if (separator < 1)
      throw new UsageError(`--label ${label}: must be NAME=VALUE, for example --label search=wide-tiles`);
    parsed.set(label.slice(0, separator), label.slice(separator + 1));
  }
  return Object.fromEntries(parsed);
}

/** A request's `variant`. The runner checks the values against the kernel's manifest. */
export function variantSettings(options: JobCommandOptions): Variant {
  return create(VariantSchema, {
    parameters: parseParameters(options.set ?? []),
    config: options.config ?? '',
    arch: options.arch ?? '',
    maxRegisters: integer('--max-registers', options.maxRegisters, 16, 255) ?? 0,
    fastMath: options.fastMath,
    keepPtx: options.keepPtx ?? false,
    keepSass: options.keepSass ?? false,
  });
}

/** The champion's `variant`. Its parameters are valid only if there is a champion. */
export function championSettings({ champion, championSet }: JobCommandOptions): Variant {
  if (championSet !== undefined && !champion) throw new UsageError('--champion-set: needs --champion');
  return create(VariantSchema, { parameters: parseParameters(championSet ?? [], '--champion-set') });
}

export function verifySettings(options: JobCommandOptions): VerifySettings {
  if (options.seeds !== undefined && options.seed !== undefined)
    throw new UsageError('--seeds and --seed: give one of them, how many fresh ones or which ones');
  if (options.cases !== undefined && options.shape !== undefined)
    throw new UsageError('--cases and --shape: give one of them, a case set or shapes');
  return create(VerifySettingsSchema, {
    shapes: shapeSettings(options),
    caseSet: options.cases ?? '',
    seedCount: integer('--seeds', options.seeds, 1, 100) ?? 0,
    seeds: (options.seed ?? []).map(parseSeed),
    tolerance: options.tolerance === undefined ? undefined : create(ToleranceSchema, { profile: options.tolerance }),
    sanitize: options.sanitize ?? false,
  });
}

export function benchmarkSettings(options: JobCommandOptions): BenchmarkSettings {
  const samples = integer('--samples', options.samples, 1, 1_000_000) ?? 0;
  const maxSeconds = positive('--max-seconds', options.maxSeconds) ?? 0;
  if (options.shapes !== undefined && options.shape !== undefined)
    throw new UsageError('--shapes and --shape: give one of them, a case set or shapes');
  return create(BenchmarkSettingsSchema, {
    shapes: shapeSettings(options),
    shapeSet: options.shapes ?? '',
    dtype: options.dtype ?? '',
    legacyLoop: options.legacyLoop ?? false,
    sdpaBackends: (options.sdpa ?? []).map((name) => (name === 'all' ? 'sdpa' : name)),
    rivals: options.rivals ?? [],
    protocol: { minSamples: samples, maxSamples: samples, maxSeconds },
  });
}

/** If several shapes are given, only the first is profiled, because counters are read for one shape at a time. */
export function profileSettings(options: JobCommandOptions): ProfileSettings {
  return create(ProfileSettingsSchema, {
    shape: shapeSettings(options)[0],
    metricSet: options.metrics ?? '',
    counters: options.metric ?? [],
  });
}

/** The settings of the experiments of a search or an agent. `seconds` are limits; 0: none. */
export const experimentSettings = (
  options: JobCommandOptions,
  seconds: { readonly queue: number; readonly run: number },
): ExperimentSettings => ({
  deviceId: options.device ?? '',
  verify: verifySettings(options),
  benchmark: benchmarkSettings(options),
  profile: profileSettings(options),
  plan: options.plan ?? '',
  maxQueueSeconds: seconds.queue,
  maxRunSeconds: seconds.run,
});

/** The text of the gates file; empty if none is given. The runner reports mistakes in it. Errors: UsageError. */
export function gatesText({ gates }: JobCommandOptions): string {
  if (gates === undefined) return '';
  let text: string;
  try {
    text = readForeignText(gates, MAX_GATES_BYTES);
  } catch (error) {
    throw new UsageError(`--gates ${gates}: cannot be read (${whyUnreadable(error)})`);
  }
  if (text.trim() === '') throw new UsageError(`--gates ${gates}: is empty`);
  return text;
}

function shapeSettings(options: JobCommandOptions): Shape[] {
  return (options.shape ?? []).map((text) => parseCase(text));
}

function parseParameters(settings: readonly string[], option = '--set'): Record<string, bigint> {
  const parameters = new Map<string, bigint>();
  for (const setting of settings) {
    const match = /^([A-Za-z_]\w*)=(-?\d{1,18})$/.exec(setting);
    if (!match) throw new UsageError(`${option} ${setting}: must be NAME=INTEGER, for example ${option} USE_WMMA=0`);
    if (parameters.has(match[1]!)) throw new UsageError(`${option}: gives ${match[1]} twice`);
    parameters.set(match[1]!, BigInt(match[2]!));
  }
  return Object.fromEntries(parameters);
}

function parseSeed(text: string): string {
  if (!/^(0x)?[0-9a-f]{1,64}(@[a-z]\w{0,63})?$/i.test(text))
    throw new UsageError(
      `--seed ${text}: must be hexadecimal, at most 64 digits, and may name a distribution: 5c0e@max_last`,
    );
  return text.replace(/^0x/i, '').toLowerCase();
}

/** The value of an option as a whole number from `least` to `most`; undefined if the option was not given. */
export function integer(option: string, text: string | undefined, least: number, most: number): number | undefined {
  if (text === undefined) return undefined;
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= least && value <= most))
    throw new UsageError(`${option} ${text}: must be a whole number from ${least} to ${most}`);
  return value;
}

/** The value of an option in seconds, above 0 and at most a day. */
export function positive(option: string, text: string | undefined): number | undefined {
  const value = numberOf(text);
  if (value === undefined || (value > 0 && value <= 86_400)) return value;
  throw new UsageError(`${option} ${text}: must be seconds, above 0 and at most 86400`);
}

const MOST_DOLLARS = 1_000_000;

/** The value of an option in dollars, above 0. */
export function dollars(option: string, text: string | undefined): number | undefined {
  const value = numberOf(text);
  if (value === undefined || (value > 0 && value <= MOST_DOLLARS)) return value;
  throw new UsageError(
    `${option} ${text}: must be dollars, above 0 and at most ${MOST_DOLLARS}${value === 0 ? `; 0 would end the search before its first trial: leave ${option} out for no limit` : ''}`,
  );
}

function numberOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  return text.trim() === '' ? Number.NaN : Number(text);
}

/**
 * The text that says how to come back to jobs that continue after the program exits, the shown one first. Its commands
 * name the runner if this command line did.
 */
export function comeBack(
  [job = '', ...others]: readonly string[],
  { runner, startRunner }: Pick<GlobalOptions, 'runner' | 'startRunner'>,
): string {
  const at = `${runner ? ` --runner ${runner}` : ''}${startRunner ? ' --start-runner' : ''}`;
  const [name, it, goOn] =
    others.length === 0
      ? [shortName(job), 'it', 'The job goes on.']
      : [shortName(job), 'one', `${others.length + 1} jobs go on: fa-tui jobs${at} lists them.`];
  return `${goOn} Watch ${it}: fa-tui watch ${name}${at}   Cancel ${it}: fa-tui cancel ${name}${at}`;
}
