import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { isRunning } from '@flashcore/shared/files';

/** The folder with the embedded runner's jobs and artifacts: $FLASHCORE_HOME, or else ~/.flashcore. */
export function dataDirectory(environment: NodeJS.ProcessEnv): string {
  return path.resolve(environment.FLASHCORE_HOME || path.join(environment.HOME || homedir(), '.flashcore'));
}

/** The record that a runner leaves in its data directory, so that clients find the runner. */
export interface RunnerRecord {
  readonly pid: number;
  readonly address: string;
  readonly buildId: string;
  /** Path of the runner's main.js; undefined if the record does not have it. */
  readonly program: string | undefined;
  /** True if a client started the runner; false if its owner did, with `flashcore-runner serve`. */
  readonly embedded: boolean;
}

/** The record of the data directory's runner; undefined if there is none or it can't be read yet. */
export function readRunnerRecord(directory: string): RunnerRecord | undefined {
  let text: string;
  try {
    text = readFileSync(path.join(directory, 'runner.json'), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  return parseRecord(text);
}

// An invalid record is treated as missing. The data directory's lock, not this file, decides which runner is active.
function parseRecord(text: string): RunnerRecord | undefined {
  try {
    const { pid, address, buildId, program, embedded } = JSON.parse(text) as Partial<RunnerRecord>;
    return Number.isSafeInteger(pid) && pid! > 1 && typeof address === 'string' && typeof buildId === 'string'
      ? {
          pid: pid!,
          address,
          buildId,
          program: typeof program === 'string' ? program : undefined,
          embedded: embedded === true,
        }
      : undefined;
  } catch {
    return undefined;
  }
}

/** The living process that has the data directory's lock; undefined if there is none. It may not answer yet. */
export function lockHolder(directory: string): number | undefined {
  const file = path.join(directory, 'lock.pid');
  const pid = existsSync(file) ? Number(readFileSync(file, 'utf8')) : 0;
  return Number.isSafeInteger(pid) && pid > 1 && isRunning(pid) ? pid : undefined;
}

/**
 * The runner's built program. fa-tui finds it relative to its own file: from apps/tui/dist (or src), in
 * apps/runner/dist.
 */
export function runnerProgram(): string {
  return path.resolve(path.dirname(fileURLToPath(import.meta.url)), TO_APPS, 'runner', 'dist', 'main.js');
}

/** The kernels of an embedded runner: kernels/ in the runner's clone. */
export const runnerKernels = (): string => path.resolve(path.dirname(runnerProgram()), '../../../kernels');

/** The folder of the example kernels that came with the runner. */
export const exampleKernels = (): string => path.join(runnerKernels(), '../examples/kernels');

// esbuild puts this file into apps/tui/dist; the tests run it from apps/tui/src/connection.
const TO_APPS = path.basename(import.meta.dirname) === 'dist' ? '../..' : '../../..';

/**
 * Digest of a runner's code, which is main.js and the worker.js next to it. The runner reports the same digest in
 * GetHost and in its record.
 */
export function buildIdOf(program: string): string {
  const worker = path.join(path.dirname(program), 'worker.js');
  return createHash('sha256').update(readFileSync(program)).update(readFileSync(worker)).digest('hex');
}
