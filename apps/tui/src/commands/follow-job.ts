import { writeFileSync } from 'node:fs';
import path from 'node:path';
import type { RunnerClient } from '@flashcore/shared/client';
import {
  ArtifactKind,
  JobKind,
  JobState,
  Verdict,
  FlashcoreError,
  GetJobResponseSchema,
  type GetJobResponse,
  type JobResult,
  type Job,
  type JobEvent,
  type ProfileResult,
  Outcome,
  exitCodeOfError as exitCodeOfReason,
  exitCodeOfOutcome,
  isErrorReasonName,
  type JobError,
} from '@flashcore/shared/contract';
import { errorText } from '@flashcore/shared/text';
import type { Connection } from '../connection/connect.ts';
import { writeWhole, requireOutputs } from '../named-files.ts';
import { sanitize } from '../present/cells/cell-text.ts';
import { jobBlocks } from '../present/sections/job.ts';
import { notMeasured } from '../present/words.ts';
import { currentJob, resolveJobName } from '../session/job-name.ts';
import { queueText } from '../state/job-list.ts';
import { type CommandContext, jsonOf } from './context.ts';
import { LiveProgress } from './live-progress.ts';
import { couldNotRun, junitOf } from '../record/junit.ts';
import { recordTo } from '../record/recording.ts';
import { toldBy } from '../record/replay-runner.ts';
import { initialState } from '../state/app-state.ts';
import { isTelling, resultOf } from '../state/job-result.ts';
import type { JobView } from '../state/job-view.ts';
import { attachedJob } from '../state/selectors.ts';
import { Store } from '../session/store.ts';
import { comeBack } from './options.ts';
import { ExitCode } from '../exit-code.ts';

type WatchOptions = NonNullable<Parameters<RunnerClient['watch']>[1]>;
type OnConnection = NonNullable<WatchOptions['onConnection']>;

/** Opens the stream of a job's events. */
export type OpenEvents = (options: Pick<WatchOptions, 'onConnection' | 'onExpired'>) => AsyncIterable<JobEvent>;

/** The part of a connection that following a job needs. */
interface FollowedRunner {
  readonly client: Pick<RunnerClient, 'getJob'> & Partial<Pick<RunnerClient, 'readArtifact' | 'listJobs'>>;
  readonly revive?: Connection['revive'];
}

/** Files to write in addition to the report. */
export interface OutputFiles {
  /** File for all events, from which they can be replayed. */
  readonly record?: string | undefined;
  /** File for cases and gates, as JUnit XML. */
  readonly junit?: string | undefined;
  /** File for Nsight Compute's report of the requested variant. */
  readonly save?: string | undefined;
  /** True to include the counters of each source line in the report. */
  readonly lines?: boolean | undefined;
  /** Called when the job has ended, to write further files. */
  readonly ended?: ((response: GetJobResponse) => void) | undefined;
}

interface FollowOptions extends OutputFiles {
  /** True for a job that another command started: the first Ctrl-C leaves. */
  readonly isOthers?: boolean;
}

const SILENT = { write: () => true };

/**
 * Follows a job's events to the end, with progress on stderr. Then prints its report on stdout, or with
 * --json its GetJobResponse. The first Ctrl-C prints how to come back to the job, and the second exits, or already the
 * first if another command started the job; neither ends the job.
 */
export async function followJob(
  open: OpenEvents,
  { client, revive }: FollowedRunner,
  context: CommandContext,
  files: FollowOptions = {},
): Promise<ExitCode> {
  const { stderr } = context.surroundings;
  const store = plainStore();
  const job = (): JobView | undefined => attachedJob(store.state);
  const progress = new LiveProgress(context.options.quiet ? SILENT : stderr, context.progressFormat, job);
  const recorder = files.record === undefined ? undefined : recordTo(files.record);
  const leaves = files.isOthers ?? false;
  const interrupts = onInterruptComeBack(() => job()?.name, context, { clear: () => progress.clear(), leaves });
  // Also when Ctrl-C ends the process, the shell's prompt begins on an empty line.
  const stop = (): void => progress.stop();
  process.once('exit', stop);
  const onConnection = connectionNotes(progress, revive);
  /** The first and the latest event. They replace the job's result if the runner is gone at the end. */
  const told: JobEvent[] = [];
  try {
    let firstKept: bigint | undefined;
    const onExpired = (first: bigint): void => {
      firstKept = first;
      context.note(`The job's events before number ${first} are no longer kept: shown from there`);
    };
    for await (const event of open({ onConnection, onExpired })) {
      recorder?.write(event);
      told[told.length === 0 ? 0 : 1] = event;
      if (store.state.attached !== event.job) store.dispatch({ type: 'attach', job: event.job });
      if (firstKept !== undefined) store.dispatch({ type: 'events-expired', job: event.job, first: firstKept });
      firstKept = undefined;
      store.dispatch({ type: 'job-event', event });
      progress.show(event);
      if (event.payload.case === 'created') await tellQueue(event, client, { progress, onConnection });
    }
    const ended = job();
    if (ended?.state !== JobState.ENDED)
      throw new FlashcoreError(
        'INTERNAL',
        { job: ended?.name ?? '' },
        `The stream of ${ended?.name ?? 'the job'} ended without the job's last event`,
      );
    const response = await endOf(ended.name, client, { onConnection, told, context });
    progress.stop();
    return await reportEnd(ended, response, { client, context, files });
  } finally {
    store.close();
    progress.stop();
    process.off('exit', stop);
    recorder?.close();
    interrupts.dispose();
  }
}

/** Prints which jobs a waiting job has to wait for. */
async function tellQueue(
  { job, payload }: JobEvent,
  client: FollowedRunner['client'],
  { progress, onConnection }: { progress: LiveProgress; onConnection: OnConnection },
): Promise<void> {
  const waits = payload.case === 'created' && (payload.value.job?.queuePosition ?? 0) > 0;
  if (!waits || client.listJobs === undefined) return;
  const { jobs } = await client.listJobs({ pageSize: 200 }, { resume: { onConnection } });
  const ahead = queueText(jobs, job);
  // `ahead` is empty if the job has left the queue since, for example because the event is old.
  if (ahead !== '') progress.line(`queued, ${sanitize(ahead)}`);
}

// Lines are printed as they arrive, so the store need not keep them.
export const plainStore = (): Store =>
  new Store({
    state: initialState({ runner: { label: '', embedded: false }, columns: 80, rows: 24, now: Date.now() }),
    logCapacity: 1,
  });

// Prints when the connection is lost and found again. Afterwards events continue without gaps or repeats. An embedded
// runner that was killed is started again, and knows how the job ended.
function connectionNotes(progress: LiveProgress, revive: Connection['revive']): OnConnection {
  return (state) => {
    progress.line(state === 'connected' ? 'runner: connected again' : 'runner: connection lost, trying again');
    if (state === 'reconnecting') revive?.().catch((error: unknown) => progress.line(`runner: ${errorText(error)}`));
  };
}

interface EndOptions {
  onConnection: OnConnection;
  told: readonly JobEvent[];
  context: CommandContext;
}

/** The ended job. If the runner is gone for good, the job is rebuilt from its events; the last one has the result. */
async function endOf(
  name: string,
  client: FollowedRunner['client'],
  { onConnection, told, context }: EndOptions,
): Promise<GetJobResponse> {
  try {
    return await client.getJob({ name }, { resume: { onConnection } });
  } catch (error) {
    if (!(error instanceof FlashcoreError) || error.reason !== 'RUNNER_UNREACHABLE') throw error;
    context.note(`The job has ended, and its runner can't be reached: shown from its events. ${error.message}`);
    return toldBy(told);
  }
}

interface Report {
  client: FollowedRunner['client'];
  context: CommandContext;
  files: OutputFiles;
}

async function reportEnd(
  ended: JobView,
  response: GetJobResponse,
  { client, context, files: { junit, save, lines, ended: write } }: Report,
): Promise<ExitCode> {
  const { error } = ended;
  const exitCode = exitCodeOfEnd(ended);
  // Set now, because the program ends with this code while writing if a reader closes the pipe early (`| head`).
  process.exitCode = exitCode;
  const result = response.result !== undefined && isTelling(response.result) ? response.result : resultOf(ended);
  if (junit !== undefined) writeFileSync(junit, junitText(response, result));
  write?.(response);
  if (context.options.json) context.document(jsonOf(GetJobResponseSchema, response));
  else if (response.job) context.show(jobBlocks({ job: response.job, result, ...(error && { error }) }, { lines }));
  const profile = result?.variants.find(({ fallback }) => !fallback)?.profile;
  const problem =
    save === undefined ? profileProblem(response.job, profile) : await saveReport(save, { profile, client, context });
  if (problem === '') return exitCode;
  context.surroundings.stderr.write(`error: ${sanitize(problem)}\n`);
  return exitCode === ExitCode.PASSED ? ExitCode.RUNNER_CANNOT : exitCode;
}

const junitText = ({ job }: GetJobResponse, result: JobResult | undefined): string =>
  junitOf(job?.label || job?.name || '', {
    variants: result?.variants ?? [],
    ...(couldNotRun(job?.outcome) && { error: job?.summary || 'the runner could not run it' }),
  });

/**
 * The reason why a job that only profiles has no profile; otherwise empty. The outcome of such a job is PASSED,
 * although it could not do its task.
 */
const profileProblem = (job: Job | undefined, profile: ProfileResult | undefined): string =>
  job?.kind === JobKind.PROFILE && profile?.verdict === Verdict.NOT_MEASURED
    ? `Nothing was profiled: ${notMeasured(profile.reason)}`
    : '';

interface ReportToSave {
  profile: ProfileResult | undefined;
  client: FollowedRunner['client'];
  context: CommandContext;
}

/** Downloads Nsight Compute's report. Returns an empty text, or the reason if there is no report. */
async function saveReport(file: string, { profile, client, context }: ReportToSave): Promise<string> {
  const report = profile?.artifacts.find(({ kind }) => kind === ArtifactKind.NCU_REPORT);
  if (!report || !client.readArtifact)
    return `Nothing was written to ${file}: ${profile ? notMeasured(profile.reason) : 'the job made no profile'}`;
  await writeWhole(path.resolve(file), await client.readArtifact(report.sha256));
  context.note(`saved ${file}: ${report.fileName}, ${report.sizeBytes} bytes`);
  return '';
}

/** Waits until the job has a name, prints the name on stdout, and leaves the job running. */
export async function detachFromJob(
  open: OpenEvents,
  { client }: Connection,
  context: CommandContext,
): Promise<ExitCode> {
  for await (const { job } of open({})) {
    if (context.options.json)
      context.document(jsonOf(GetJobResponseSchema, await client.getJob({ name: job }, { resume: {} })));
    else context.report([job]);
    context.note(comeBack([job], context.options));
    return ExitCode.PASSED;
  }
  throw new FlashcoreError('INTERNAL', {}, "The stream ended without the job's first event");
}

/**
 * `fa-tui watch <job>`: shows the job's events from the first one that the runner still has, then the job's report. The
 * job may be running or have ended.
 */
export function watchJob(job: string, context: CommandContext, files: OutputFiles = {}): Promise<ExitCode> {
  requireOutputs(files);
  return context.withRunner(async (connection) => {
    const name = await (job === '' ? currentJob(connection.client) : resolveJobName(connection.client, job));
    return followJob((options) => connection.client.watch(name, options), connection, context, {
      ...files,
      isOthers: true,
    });
  });
}

// Signals within this time are one Ctrl-C: a terminal sends it to both processes, and bin/fa-tui.js passes it on.
const SAME_PRESS_MS = 150;

interface ComeBackOptions {
  /** Erases a line that is being redrawn. Returns false if there was none. */
  readonly clear?: () => boolean;
  /** True if the first Ctrl-C exits. */
  readonly leaves?: boolean;
}

/**
 * Makes the first Ctrl-C print how to come back to the job, and the second one exit. Without a job, the first one
 * exits.
 */
export const onInterruptComeBack = (
  job: () => string | undefined,
  { surroundings: { stderr }, options }: CommandContext,
  { clear = () => false, leaves = false }: ComeBackOptions = {},
): ReturnType<typeof onInterrupt> =>
  onInterrupt(() => {
    const name = job();
    if (name === undefined) return false;
    // Without a line to erase, the terminal has written ^C at the end of what is there.
    const gap = clear() ? '' : '\n';
    stderr.write(`${gap}${comeBack([name], options)}\n${leaves ? '' : 'Ctrl-C again leaves.\n'}`);
    return !leaves;
  });

/**
 * Calls `first` at the first Ctrl-C. The second Ctrl-C ends the program with 130, and so does the first if `first`
 * returns a falsy value.
 */
export function onInterrupt(first: () => unknown): { dispose(): void } {
  let firstAt: number | undefined;
  const handler = () => {
    if (firstAt !== undefined && Date.now() - firstAt < SAME_PRESS_MS) return;
    if (firstAt !== undefined || !first()) process.exit(ExitCode.INTERRUPTED);
    firstAt = Date.now();
  };
  process.on('SIGINT', handler);
  return { dispose: () => process.off('SIGINT', handler) };
}

/**
 * The exit code for the job's outcome. If the runner could not carry out the job, it is the code for the job's error.
 */
export function exitCodeOfEnd({
  outcome,
  error,
}: {
  readonly outcome: Outcome;
  readonly error?: JobError | undefined;
}): ExitCode {
  if (outcome === Outcome.ERROR && error && isErrorReasonName(error.reason)) return exitCodeOfReason(error.reason);
  return exitCodeOfOutcome(outcome);
}
