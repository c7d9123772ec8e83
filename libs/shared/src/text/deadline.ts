import { Script } from 'node:vm';
import { cpuMs } from './cpu-time.ts';

/** Work that did not end within its deadline. */
export class DeadlinePassed extends Error {
  override readonly name = 'DeadlinePassed';
}

/** Each has twice the time of the one before, for a busy machine; in all the event loop stands still for 7 limits. */
const ATTEMPTS = 3;

const KEY = Symbol.for('flashcore.work');
const SCRIPT = new Script(`globalThis[Symbol.for('flashcore.work')]()`, { filename: 'deadline' });

/**
 * Does synchronous work and stops it when its time is up, also in the middle of a regular expression: V8's watchdog
 * thread ends the script. The second wall around foreign text, should a scanner of it not be linear after all. What is
 * stopped runs no `finally`: the work must only read and compute. It is begun anew where other processes had the
 * processor for most of its time. Errors: DeadlinePassed, and those of the work.
 */
export function withinDeadline<Result>(limitMs: number, work: () => Result): Result {
  const globals = globalThis as unknown as Record<symbol, unknown>;
  const outer = globals[KEY];
  globals[KEY] = work;
  try {
    for (let attempt = 0; ; attempt++) {
      const before = cpuMs();
      try {
        return SCRIPT.runInThisContext({ timeout: limitMs * 2 ** attempt }) as Result;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
        if (attempt + 1 === ATTEMPTS || cpuMs() - before > limitMs / 2)
          throw new DeadlinePassed(`Stopped after ${limitMs} ms`, { cause: error });
      }
    }
  } finally {
    globals[KEY] = outer;
  }
}
