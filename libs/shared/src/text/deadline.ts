import { Script } from 'node:vm';

/** Thrown if work did not end within its deadline. */
export class DeadlinePassed extends Error {
  override readonly name = 'DeadlinePassed';
}

/** Each attempt gets twice the time of the previous one, for busy machines: in total 1 + 2 + 4 limits. */
const ATTEMPTS = 3;

const KEY = Symbol.for('flashcore.work');
const SCRIPT = new Script(`globalThis[Symbol.for('flashcore.work')]()`, { filename: 'deadline' });

/**
 * Processor time of this process so far, in milliseconds. Unlike a clock, it does not advance while other processes
 * run.
 */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/**
 * Runs synchronous work and stops it when its time is up, even inside a regular expression, because V8's watchdog
 * thread ends the script. This is a second line of defense for foreign text, in case one of flashcore's scanners is not
 * linear. Stopped work runs no `finally`, so it must only read and compute. If other processes had the processor for
 * most of the time, the work is started again. Errors: DeadlinePassed, and those of the work.
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
