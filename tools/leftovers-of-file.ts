/** Runs before each test file (setupFiles): processes that the file starts get its mark, and end with it. */
import { randomUUID } from 'node:crypto';
import { afterAll } from 'vitest';
import { endLeftovers, FILE, RUN } from './leftovers.ts';

const mark = (process.env[FILE] = `${process.env[RUN]}/${randomUUID()}`);

// vitest runs a file's first hook last, and adds the file's name to the warning.
afterAll(() => {
  const left = endLeftovers(mark);
  if (left.length > 0) console.warn(`${left.length} left running, and ended: ${left[0]!.command.slice(0, 200)}`);
});
