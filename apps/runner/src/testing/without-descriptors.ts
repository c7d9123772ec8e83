/**
 * Takes all descriptors of its process, then starts every kind of child as the daemon does, and prints how each ended.
 * Run with a low `ulimit -n`.
 */
import { openSync } from 'node:fs';
import { SdpaProcess } from '../sdpa/sdpa-process.ts';
import { runProgram } from '../sandbox/run.ts';
import { WorkerProcess } from '../workers/worker-process.ts';

const signal = new AbortController().signal;
const ends: Record<string, () => Promise<unknown>> = {
  compiler: () => runProgram('/bin/true', [], { cwd: '/', limitMs: 5_000, signal }),
  sdpa: () => new SdpaProcess({ python: 'python3', script: '/nonexistent' }).request('open', {}, { limitMs: 5_000 }),
  worker: () =>
    new WorkerProcess(() => undefined, { program: '/bin/true', args: [], env: {} }).request(
      { type: 'conditions', ownProcesses: [] },
      { signal },
    ),
};
// Done before descriptors run out, because stdout opens on first use.
process.stdout.write('');
try {
  for (;;) openSync('/dev/null', 'r');
} catch (error) {
  if ((error as NodeJS.ErrnoException).code !== 'EMFILE') throw error;
}
for (const [kind, start] of Object.entries(ends)) {
  const end = await start().then(
    (value) => JSON.stringify(value),
    (error: unknown) => (error as Error).message,
  );
  process.stdout.write(`${kind}: ${end}\n`);
}
process.exit(0);
