import { existsSync, realpathSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { RunnerClient } from '@flashcore/shared/client';
import { FlashcoreError } from '@flashcore/shared/contract';
import { makeFolder, whyUnwritable, isRunning } from '@flashcore/shared/files';
import { buildIdOf, readRunnerRecord, runnerProgram, type RunnerRecord } from './data-directory.ts';
import { launchRunner, type RunnerLaunch } from './runner-launch.ts';

/** The runner of a data directory, ready to receive requests. */
export interface EmbeddedRunner {
  readonly client: RunnerClient;
  readonly pid: number;
  readonly address: string;
  /** False if the runner's owner started it for the same data directory. Then only the owner ends and restarts it. */
  readonly embedded: boolean;
}

interface EmbeddedRunnerOptions {
  /** The runner's data directory, which is created if it does not exist. */
  readonly directory: string;
  readonly environment: NodeJS.ProcessEnv;
  /** The runner's main.js; by default the one built with this program. */
  readonly program?: string;
  readonly signal?: AbortSignal;
  readonly notify?: (message: string) => void;
}

const START_LIMIT_MS = 10_000;
const STOP_LIMIT_MS = 10_000;
const POLL_MS = 25;

/**
 * Finds the runner of a data directory, or starts it detached so that it outlives this command. An idle embedded runner
 * of another build or checkout is replaced. A runner that its owner started is used unchanged. If two clients start at
 * the same time, both start a runner; the directory's lock lets only one runner survive, and both clients connect to
 * it. Errors: RUNNER_UNREACHABLE with the end of the runner's log.
 */
export async function ensureEmbeddedRunner(options: EmbeddedRunnerOptions): Promise<EmbeddedRunner> {
  const { directory, environment, program = runnerProgram(), signal, notify } = options;
  requireBuilt(program);
  inDataFolder(directory, () => makeFolder(directory));
  const own = { buildId: buildIdOf(program), program: realpathSync(program) };
  const deadline = performance.now() + START_LIMIT_MS;
  let launch: RunnerLaunch | undefined;
  for (;;) {
    signal?.throwIfAborted();
    const found = await probe(directory);
    const difference = found && differenceOf(found.record, own);
    if (found && (!difference || !(await replaced(found, difference, notify)))) return take(found);
    launch?.throwIfFailed();
    if (performance.now() > deadline) throw givenUp(directory, launch);
    if (!found) launch ??= inDataFolder(directory, () => launchRunner({ program, directory, environment }));
    await sleep(POLL_MS, undefined, signal ? { signal } : {});
  }
}

/** Runs `write`. If the data folder is not writable, the error says what to do. */
function inDataFolder<Result>(directory: string, write: () => Result): Result {
  try {
    return write();
  } catch (cause) {
    const why = whyUnwritable(cause);
    if (why === undefined) throw cause;
    throw new FlashcoreError(
      'RUNNER_UNREACHABLE',
      { directory },
      `A runner of your own keeps its jobs in ${directory}: ${why}; set FLASHCORE_HOME to a folder that this user can write to, or name a runner with --runner`,
      { cause },
    );
  }
}

function requireBuilt(program: string): void {
  if (!existsSync(program))
    throw new FlashcoreError(
      'RUNNER_UNREACHABLE',
      { program },
      `The built runner is not at ${program}. Run: npm ci --ignore-scripts=false`,
    );
}

/**
 * The process id of the data directory's idle embedded runner; undefined if there is no runner. Errors: INVALID_REQUEST
 * if the runner has or may have jobs, or if it is not embedded.
 */
export async function idleRunner(directory: string): Promise<number | undefined> {
  const found = await probe(directory);
  if (!found) return undefined;
  const { record, client } = found;
  const jobs = client?.host.activeJobs;
  client?.close();
  const refusal = (text: string) => new FlashcoreError('INVALID_REQUEST', { directory }, text);
  if (!record.embedded) throw refusal(`A runner serves ${directory} (process ${record.pid}): stop it first`);
  if (jobs === undefined)
    throw refusal(`The runner in process ${record.pid} is of another version and may have jobs: end it first`);
  if (jobs > 0)
    throw refusal(
      `The runner of ${directory} has ${jobs} job${jobs === 1 ? '' : 's'}: cancel them (fa-tui cancel), or wait for their end`,
    );
  return record.pid;
}

interface FoundRunner {
  readonly record: RunnerRecord;
  /** Undefined if the runner has another API version. */
  readonly client: RunnerClient | undefined;
}

// Any runner that answers at the recorded address is the directory's runner. If none answers, the record is left over
// from a runner that was killed.
async function probe(directory: string): Promise<FoundRunner | undefined> {
  const record = readRunnerRecord(directory);
  if (!record || !isRunning(record.pid)) return undefined;
  try {
    return { record, client: await RunnerClient.connect({ address: record.address }) };
  } catch (error) {
    if (error instanceof FlashcoreError && error.reason === 'VERSION_MISMATCH') return { record, client: undefined };
    if (error instanceof FlashcoreError && ['RUNNER_UNREACHABLE', 'DRAINING'].includes(error.reason)) return undefined;
    throw error;
  }
}

/**
 * Says how a runner differs from the wanted one; undefined if it does not. It may have other code, or the same code but
 * another clone's kernels.
 */
function differenceOf(
  { buildId, program }: RunnerRecord,
  own: Pick<RunnerRecord, 'buildId' | 'program'>,
): string | undefined {
  if (buildId !== own.buildId) return 'another build';
  const elsewhere = program !== undefined && (!existsSync(program) || realpathSync(program) !== own.program);
  return elsewhere ? `another checkout (${program})` : undefined;
}

/** Ends an embedded runner that differs from the wanted one, unless it has work. Returns true if it was ended. */
async function replaced(
  { record, client }: FoundRunner,
  difference: string,
  notify: ((message: string) => void) | undefined,
): Promise<boolean> {
  if (!record.embedded) {
    notify?.(
      `runner: process ${record.pid} is of ${difference} and was started by \`serve\`: used as it is; to replace it, end it`,
    );
    return false;
  }
  const jobs = client?.host.activeJobs ?? 0;
  if (jobs > 0) {
    notify?.(
      `runner: process ${record.pid} is of ${difference} and has ${jobs} job(s): used as it is, replaced when it is idle`,
    );
    return false;
  }
  client?.close();
  notify?.(`runner: process ${record.pid} is of ${difference}: replaced`);
  await endRunner(record.pid);
  return true;
}

/** Ends a runner and waits until its process is gone. Errors: RUNNER_UNREACHABLE if that takes too long. */
export async function endRunner(pid: number): Promise<void> {
  process.kill(pid, 'SIGTERM');
  for (const deadline = performance.now() + STOP_LIMIT_MS; isRunning(pid); await sleep(POLL_MS)) {
    if (performance.now() > deadline)
      throw new FlashcoreError(
        'RUNNER_UNREACHABLE',
        { pid: String(pid) },
        `The runner (process ${pid}) still runs ${STOP_LIMIT_MS / 1000} s after it was told to end. Run: kill -9 ${pid}`,
      );
  }
}

function take({ record, client }: FoundRunner): EmbeddedRunner {
  if (!client)
    throw new FlashcoreError(
      'VERSION_MISMATCH',
      {},
      `The runner in process ${record.pid} speaks another version of the API. To replace it, end it`,
    );
  return { client, pid: record.pid, address: record.address, embedded: record.embedded };
}

function givenUp(directory: string, launch: RunnerLaunch | undefined): FlashcoreError {
  launch?.abandon();
  return new FlashcoreError(
    'RUNNER_UNREACHABLE',
    { directory },
    `The embedded runner of ${directory} did not answer within ${START_LIMIT_MS / 1000} s. ${launch?.logTail() ?? ''}`.trim(),
  );
}
