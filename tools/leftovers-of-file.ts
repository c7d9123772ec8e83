/** Before each test file (setupFiles): what it starts has its mark, and ends with it. */
import { randomUUID } from 'node:crypto';
import { afterAll } from 'vitest';
import { endLeftovers, FILE, RUN } from './leftovers.ts';

const mark = (process.env[FILE] = `${process.env[RUN]}/${randomUUID()}`);

// The first hook of a file is the last to run. vitest names the file beside what is written.
afterAll(() => {
  const left = endLeftovers(mark);
  if (left.length > 0) console.warn(`${left.length} left running, and ended: ${left[0]!.command.slice(0, 200)}`);
});
