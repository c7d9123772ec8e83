import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** Where the embedded runner keeps jobs and artifacts: $FLASHCORE_HOME, else ~/.flashcore. */
export function dataDirectory(environment: NodeJS.ProcessEnv): string {
  return path.resolve(environment.FLASHCORE_HOME || path.join(environment.HOME || homedir(), '.flashcore'));
}

/** What a runner leaves in its data directory so that clients find it. */
export interface RunnerRecord {
  readonly pid: number;
  readonly address: string;
  readonly buildId: string;
  /** Started by a client for itself; false: by its owner with `flashcore-runner serve`. */
  readonly embedded: boolean;
}

/** The record of the data directory's runner; undefined when there is none, or one that can't be read yet. */
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

// A record that is not one is as good as none: the data directory's lock, not this file, decides who runs.
function parseRecord(text: string): RunnerRecord | undefined {
  try {
    const { pid, address, buildId, embedded } = JSON.parse(text) as Partial<RunnerRecord>;
    return Number.isSafeInteger(pid) && pid! > 1 && typeof address === 'string' && typeof buildId === 'string'
      ? { pid: pid!, address, buildId, embedded: embedded === true }
      : undefined;
  } catch {
    return undefined;
  }
}

/** The runner's built program, beside which fa-tui lies: apps/tui/dist (or src) and apps/runner/dist. */
export function runnerProgram(): string {
  return path.resolve(path.dirname(fileURLToPath(import.meta.url)), TO_APPS, 'runner', 'dist', 'main.js');
}

/** The kernels that an embedded runner serves: kernels/ of the same clone. */
export const runnerKernels = (): string => path.resolve(path.dirname(runnerProgram()), '../../../kernels');

// esbuild puts this file into apps/tui/dist; the tests run it from apps/tui/src/connection.
const TO_APPS = path.basename(import.meta.dirname) === 'dist' ? '../..' : '../../..';

/**
 * Digest of a runner's code, main.js and the worker.js beside it, as the runner itself gives it in GetHost and in its
 * record.
 */
export function buildIdOf(program: string): string {
  const worker = path.join(path.dirname(program), 'worker.js');
  return createHash('sha256').update(readFileSync(program)).update(readFileSync(worker)).digest('hex');
}
