import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { create } from '@bufbuild/protobuf';
import type { RunnerClient } from '@flashcore/shared/client';
import {
  JobState,
  KernelVariantSchema,
  type BenchmarkSettings,
  type GetJobResponse,
  type Job,
  type KernelReference,
} from '@flashcore/shared/contract';
import { parseRbkConfig } from '../handover/rbk-config.ts';
import { rbkReports } from '../handover/rbk-report.ts';
import {
  benchmarkSettings,
  championSettings,
  gatesText,
  jobSettings,
  profileSettings,
  variantSettings,
  verifySettings,
  type JobCommandOptions,
} from './options.ts';
import { OwnKernels } from '../settings/own-kernels.ts';
import { type StartRequest, jobRequest, type JobAction, type RunnerPort } from '../session/runner-port.ts';
import { namedJob } from '../present/words.ts';
import { reduceJob, withoutEventsBefore } from '../state/job-reducer.ts';
import { jobViewOf, type JobView } from '../state/job-view.ts';
import { idleFallback } from '../state/selectors.ts';
import type { CommandContext } from './context.ts';
import { detachFromJob, followJob, type OpenEvents } from './follow-job.ts';
import { requireOutputs, readNamed } from '../named-files.ts';
import { kernelReference, otherName, parseKernelArgument, storedReference } from './kernel-argument.ts';
import { type ExitCode, UsageError } from '../exit-code.ts';

/**
 * Starts the job of `fa-tui run|build|verify|bench|profile <kernel or folder>`. An empty `kernelText` selects SDPA
 * without a kernel. All mistakes in the command line are reported before a runner is contacted.
 */
export async function startJob(
  command: JobAction,
  kernelText: string,
  options: JobCommandOptions,
  context: CommandContext,
): Promise<ExitCode> {
  if (options.detach && (options.record !== undefined || options.junit !== undefined || options.save !== undefined))
    throw new UsageError('--detach: does not go with --record, --junit and --save, which need the job to its end');
  requireOutputs(options);
  const rbk = options.rbk === undefined ? undefined : readRbk(options.rbk, options);
  if (kernelText === '') {
    if (rbk) throw new UsageError('--rbk: give the kernel that is to be benchmarked');
    return startSdpa(options, context);
  }
  const requestFor = plannedRequest(command, withPlan({ ...options, ...rbk?.options }, context));
  const kernel = await parseKernelArgument(kernelText);
  if (kernel.kind === 'folder') rememberFolder(kernel.folder, context);
  const champion = options.champion ? await parseKernelArgument(options.champion) : undefined;
  for (const text of [kernel, champion].flatMap((each) => (each && otherName(each)) || [])) context.note(text);
  return context.withStartedRunner(async (connection) => {
    const { client } = connection;
    if (kernel.kind !== 'build') await stopFallback(kernel.id, client, context);
    const { method, request } = requestFor(
      await kernelReference(kernel, client),
      champion && (await kernelReference(champion, client)),
    );
    const open: OpenEvents = (watch) => client.start(method, request, watch);
    return options.detach
      ? detachFromJob(open, connection, context)
      : followJob(open, connection, context, { ...options, ended: rbk?.write });
  });
}

/** Stops the kernel's fallbacks that can no longer change a verdict, as a session does, and notes each on stderr. */
async function stopFallback(kernelId: string, client: RunnerClient, context: CommandContext): Promise<void> {
  for (const job of await stopFallbacksOf(kernelId, client))
    context.note(`Stopped the fallback of ${namedJob(job)}, whose verdict stands: the device is free for this job`);
}

type FallbackClient = Pick<RunnerPort, 'getHost' | 'listJobs' | 'watch' | 'cancelJob'>;

/**
 * Cancels the caller's running jobs of a kernel whose verdict stands and whose fallback still runs, so that the next
 * job gets the device at once. Returns these jobs. A session, which follows the runner's jobs, knows them already.
 * Errors: RUNNER_UNREACHABLE.
 */
export async function stopFallbacksOf(kernelId: string, client: FallbackClient): Promise<Job[]> {
  const [{ caller }, { jobs }] = await Promise.all([
    client.getHost({}),
    client.listJobs({ state: JobState.RUNNING, pageSize: 200 }),
  ]);
  const stopped: Job[] = [];
  for (const job of jobs) {
    const isOwn = job.owner === undefined || job.owner === caller?.name;
    if (job.kernelId !== kernelId || job.state !== JobState.RUNNING || !isOwn) continue;
    if (idleFallback(await viewOf(job, client)) === undefined) continue;
    await client.cancelJob({ name: job.name });
    stopped.push(job);
  }
  return stopped;
}

/** The job up to the event that is its last one now. */
async function viewOf(job: Job, client: FallbackClient): Promise<JobView> {
  let view = jobViewOf(job);
  const onExpired = (first: bigint): void => void (view = withoutEventsBefore(view, Number(first)));
  for await (const event of client.watch(job.name, { onExpired })) {
    view = reduceJob(view, event);
    if (event.sequence >= job.lastSequence) break;
  }
  return view;
}

/** Moves a user's kernel folder to the top of the folders in view 7. */
export function rememberFolder(folder: string, context: CommandContext): void {
  const problem = new OwnKernels(context.surroundings.environment).remember(folder);
  if (problem !== undefined) context.note(problem);
}

/** `fa-tui bench --sdpa all`: SDPA without a kernel. The runner refuses options that need a kernel. */
function startSdpa(options: JobCommandOptions, context: CommandContext): Promise<ExitCode> {
  if ((options.sdpa ?? []).length === 0)
    throw new UsageError('bench: give a kernel or folder, or --sdpa all to measure SDPA alone');
  if (options.champion) throw new UsageError('--champion: needs a kernel to compare with it; SDPA is measured alone');
  const request = {
    options: jobSettings(options),
    variant: variantSettings(options),
    settings: benchmarkSettings(options),
  };
  return context.withStartedRunner((connection) => {
    const open: OpenEvents = (watch) => connection.client.start('benchmark', request, watch);
    return options.detach ? detachFromJob(open, connection, context) : followJob(open, connection, context, options);
  });
}

/** The options, with the project's plan if they do not name a plan. Only an experiment has a plan. */
export function withPlan(options: JobCommandOptions, context: CommandContext): JobCommandOptions {
  const plan = options.plan ?? context.project()?.plan;
  return plan === undefined ? options : { ...options, plan };
}

/** Makes a request from the references to a kernel and, if the options name one, to its champion. */
type RequestFor = (kernel: KernelReference, champion?: KernelReference) => StartRequest;

/**
 * Makes all of a request but the references to kernels from a command's options. Errors: UsageError, INVALID_REQUEST
 * for a malformed shape.
 */
export function plannedRequest(command: JobAction, options: JobCommandOptions): RequestFor {
  const common = { options: jobSettings(options), variant: variantSettings(options) };
  const [verify, benchmark, profile] = [verifySettings(options), withChampion(options), profileSettings(options)];
  const experiment = {
    noFallback: options.fallback === false,
    plan: options.plan ?? '',
    gatesYaml: gatesText(options),
    noChampion: options.champion === false,
  };
  return (kernel, champion) =>
    jobRequest(command, {
      common: { ...common, kernel },
      verify,
      benchmark: benchmark(champion),
      profile,
      experiment,
    });
}

/** Makes the benchmark's settings, with the champion if there is one. */
function withChampion(options: JobCommandOptions): (champion: KernelReference | undefined) => BenchmarkSettings {
  const settings = benchmarkSettings(options);
  const variant = championSettings(options);
  return (kernel) =>
    kernel === undefined ? settings : { ...settings, champion: create(KernelVariantSchema, { kernel, variant }) };
}

/**
 * The champion of a command that uploads nothing: one of the runner's own kernels, or an earlier build. Errors:
 * UsageError for a folder.
 */
export async function championById({
  champion,
}: Pick<JobCommandOptions, 'champion'>): Promise<KernelReference | undefined> {
  if (!champion) return undefined;
  const named = await parseKernelArgument(champion);
  if (named.kind === 'folder')
    throw new UsageError(`--champion ${champion}: is a folder; give a kernel of the runner or a build_id`);
  return storedReference(named);
}

/** A benchmark with the settings of `--rbk`. */
interface RbkRun {
  readonly options: Pick<JobCommandOptions, 'shape' | 'dtype' | 'samples'>;
  readonly write: (response: GetJobResponse) => void;
}

/** Reads rbk_config.yaml. Errors: UsageError, INVALID_MANIFEST with file, line and key. */
function readRbk(file: string, given: JobCommandOptions): RbkRun {
  const doubled = [
    given.shape && '--shape',
    given.samples && '--samples',
    given.shapes && '--shapes',
    given.dtype && '--dtype',
  ].filter(Boolean);
  if (doubled.length > 0) throw new UsageError(`--rbk ${file} with ${doubled.join(', ')}: give one of them`);
  if (given.detach) throw new UsageError('--rbk with --detach: its report needs the job to its end');
  const config = parseRbkConfig(readNamed('--rbk', file).toString('utf8'), file);
  return {
    options: {
      shape: config.shapes.map(({ shape }) => shape),
      dtype: config.dtype,
      ...(config.iterations !== undefined && { samples: String(config.iterations) }),
    },
    write(response) {
      mkdirSync(config.outputFolder, { recursive: true });
      for (const [name, text] of Object.entries(rbkReports(config, response)))
        writeFileSync(path.join(config.outputFolder, name), text);
    },
  };
}
