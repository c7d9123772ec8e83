import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The embedded runner's folder of jobs and artifacts: $FLASHCORE_HOME, else ~/.flashcore. */
export function dataDirectory(environment: NodeJS.ProcessEnv): string {
  return path.resolve(environment.FLASHCORE_HOME || path.join(environment.HOME || homedir(), '.flashcore'));
}

/** The record in a runner's data directory through which clients find the runner. */
export interface RunnerRecord {
  readonly pid: number;
  readonly address: string;
  readonly buildId: string;
  /** The runner's main.js; undefined for a runner that did not tell. */
  readonly program: string | undefined;
  /** True if a client started the runner for itself; false if its owner did, with `flashcore-runner serve`. */
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

// An invalid record counts as missing. The data directory's lock, not this file, decides which runner is active.
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

/** The runner's built program. It is located relative to fa-tui: apps/tui/dist (or src) and apps/runner/dist. */
export function runnerProgram(): string {
  return path.resolve(path.dirname(fileURLToPath(import.meta.url)), TO_APPS, 'runner', 'dist', 'main.js');
}

/** The kernels of an embedded runner: kernels/ of the same clone. */
export const runnerKernels = (): string => path.resolve(path.dirname(runnerProgram()), '../../../kernels');

// esbuild puts this file into apps/tui/dist; the tests run it from apps/tui/src/connection.
const TO_APPS = path.basename(import.meta.dirname) === 'dist' ? '../..' : '../../..';

/**
 * Digest of a runner's code, main.js and the worker.js beside it. The runner reports the same digest in GetHost and in
 * its record.
 */
export function buildIdOf(program: string): string {
  const worker = path.join(path.dirname(program), 'worker.js');
  return createHash('sha256').update(readFileSync(program)).update(readFileSync(worker)).digest('hex');
}
