import { existsSync, realpathSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { isSilence, RunnerClient } from '@flashcore/shared/client';
import { FlashcoreError } from '@flashcore/shared/contract';
import { makeFolder, whyUnwritable, isRunning } from '@flashcore/shared/files';
import { buildIdOf, lockHolder, readRunnerRecord, runnerProgram, type RunnerRecord } from './data-directory.ts';
import { launchRunner, logOf, type RunnerLaunch } from './runner-launch.ts';

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
  /** How long to wait for a runner that does not answer; default START_LIMIT_MS. */
  readonly startLimitMs?: number;
}

/** A start takes less than a second, but a minute and a half was seen on a machine with ten processes for each core. */
const START_LIMIT_MS = 180_000;
/** The first greeting waits until the runner has asked its compilers for their versions. */
const GREETING_LIMIT_MS = 15_000;
const SAY_AFTER_MS = 10_000;
const STOP_LIMIT_MS = 10_000;
const FIRST_POLL_MS = 25;
const MAX_POLL_MS = 500;

/**
 * Finds the runner of a data directory, or starts it detached so that it outlives this command. An idle embedded runner
 * of another build or checkout is replaced. A runner that its owner started is used unchanged. If two clients start at
 * the same time, both start a runner; the directory's lock lets only one runner survive, and both clients wait for it.
 * No runner is ended because it is slow, unless it has not answered within the limit. Errors: RUNNER_UNREACHABLE.
 */
export async function ensureEmbeddedRunner(options: EmbeddedRunnerOptions): Promise<EmbeddedRunner> {
  const { directory, environment, program = runnerProgram(), signal, notify, startLimitMs = START_LIMIT_MS } = options;
  requireBuilt(program);
  inDataFolder(directory, () => makeFolder(directory));
  const own = { buildId: buildIdOf(program), program: realpathSync(program) };
  const begin = performance.now();
  let launch: RunnerLaunch | undefined;
  let said = false;
  for (let pauseMs = FIRST_POLL_MS; ; pauseMs = Math.min(MAX_POLL_MS, pauseMs * 1.2)) {
    signal?.throwIfAborted();
    const waitedMs = performance.now() - begin;
    const found = await probe(directory, { signal, timeoutMs: Math.max(1, startLimitMs - waitedMs) });
    const difference = typeof found === 'object' ? differenceOf(found.record, own) : undefined;
    if (typeof found === 'object' && (!difference || !(await replaced(found, difference, notify)))) return take(found);
    launch?.throwIfFailed();
    if (waitedMs > startLimitMs) throw givenUp(directory, launch, startLimitMs);
    if (waitedMs > SAY_AFTER_MS && !said) {
      said = true;
      notify?.(`runner: no answer for ${SAY_AFTER_MS / 1000} s; waiting up to ${startLimitMs / 1000} s`);
    }
    // The runner that got the directory before ours may have ended meanwhile.
    if (launch?.lost() && lockHolder(directory) === undefined) launch = undefined;
    if (found === 'absent') launch ??= inDataFolder(directory, () => launchRunner({ program, directory, environment }));
    await sleep(pauseMs, undefined, signal ? { signal } : {});
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
  if (found === 'absent') return undefined;
  if (found === 'silent')
    throw new FlashcoreError(
      'INVALID_REQUEST',
      { directory },
      `The runner of ${directory} does not answer and may have jobs: try again, or end it first`,
    );
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
  /** Undefined if the runner has a different API version. */
  readonly client: RunnerClient | undefined;
}

type Probed = FoundRunner | 'absent' | 'silent';

interface ProbeOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number;
}

/**
 * Any runner that answers at the recorded address is the directory's runner. `absent`: nothing listens there, so the
 * record is left over from a runner that was killed. `silent`: a process listens, but has not answered yet.
 */
async function probe(directory: string, { signal, timeoutMs = GREETING_LIMIT_MS }: ProbeOptions = {}): Promise<Probed> {
  const record = readRunnerRecord(directory);
  if (!record || !isRunning(record.pid)) return 'absent';
  try {
    const { address } = record;
    const client = await RunnerClient.connect({ address, signal, timeoutMs: Math.min(timeoutMs, GREETING_LIMIT_MS) });
    return { record, client };
  } catch (error) {
    if (!(error instanceof FlashcoreError)) throw error;
    if (error.reason === 'VERSION_MISMATCH') return { record, client: undefined };
    if (error.reason === 'DRAINING') return 'absent';
    if (error.reason !== 'RUNNER_UNREACHABLE') throw error;
    return isSilence(error) ? 'silent' : 'absent';
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
  for (const deadline = performance.now() + STOP_LIMIT_MS; isRunning(pid); await sleep(FIRST_POLL_MS)) {
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

function givenUp(directory: string, launch: RunnerLaunch | undefined, limitMs: number): FlashcoreError {
  launch?.abandon();
  // A runner that this client started has just been ended.
  const holder = launch?.lost() === false ? undefined : lockHolder(directory);
  const remedy = holder === undefined ? '' : `; to replace it, end it (kill ${holder})`;
  return new FlashcoreError(
    'RUNNER_UNREACHABLE',
    { directory },
    `The runner did not start within ${limitMs / 1000} s; see ${logOf(directory)}${remedy}`,
  );
}
