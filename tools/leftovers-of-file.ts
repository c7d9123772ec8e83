/**
 * Runs before each test file (setupFiles). Processes that the file starts get the file's mark, and end with the file.
 */
import { randomUUID } from 'node:crypto';
import { afterAll } from 'vitest';
import { endLeftovers, FILE, RUN } from './leftovers.ts';

const mark = (process.env[FILE] = `${process.env[RUN]}/${randomUUID()}`);

// vitest runs the first hook of a file last, and adds the file's name to the warning.
afterAll(() => {
  const left = endLeftovers(mark);
  if (left.length > 0) console.warn(`${left.length} left running, and ended: ${left[0]!.command.slice(0, 200)}`);
});
