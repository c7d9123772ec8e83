import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { TEST_HOST } from '@flashcore/runner/testing';
import { collect, createPlanner, kernel, startTestRunner, temporaryFolder } from '@flashcore/runner/testing-daemon';
import { parseShape } from '@flashcore/shared/kernels';
import type { Bench } from './ratios.ts';
import { openEcho } from './echo.ts';

const CALLS = 200;
const EVENTS = 5_000;
const SHAPE = parseShape('1x4x128x64');

/** Milliseconds that it takes. */
async function timed(work: () => unknown): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

/** The benches, and what they run on until they are disposed of. */
export async function openBenches(): Promise<AsyncDisposable & { benches: Bench[] }> {
  const stack = new AsyncDisposableStack();
  const folder = stack.use(temporaryFolder()).path;
  const scripted = stack.use(await startTestRunner());
  const real = stack.use(
    await startTestRunner({ createPlanner: (options) => createPlanner({ ...options, host: TEST_HOST }) }),
  );
  const echo = stack.use(await openEcho(join(folder, 'echo')));
  const [started] = await collect(scripted.client.start('build', kernel('ok')));
  const name = started!.job;
  const broken = join(folder, 'broken.cpp');
  writeFileSync(broken, 'this is no C++\n');
  const verify = (kernelId: string) => () =>
    timed(() =>
      collect(real.client.start('verify', { ...kernel(kernelId), settings: { shapes: [SHAPE], seedCount: 1 } })),
    );
  const benches: Bench[] = [
    {
      id: 'rpc',
      what: `${CALLS} GetJob, one after another`,
      yardstick: 'a bare grpc-js echo',
      measure: () => repeated(() => scripted.client.getJob({ name })),
      measureYardstick: () => repeated(() => echo.call()),
    },
    {
      id: 'events',
      what: `${EVENTS} log lines stored and streamed`,
      yardstick: 'SQLite inserts of as many rows alone',
      measure: () => timed(() => collect(scripted.client.start('build', kernel(`flood_${EVENTS}`)))),
      measureYardstick: () => timed(() => insertRows(join(folder, 'rows.db'))),
    },
    {
      id: 'compile-error',
      what: 'from a save to the compile error',
      yardstick: 'g++ alone on a line that does not compile',
      measure: () => timed(() => collect(real.client.start('build', kernel('syntax_error')))),
      measureYardstick: () => timed(() => spawnSync('c++', ['-fsyntax-only', broken], { stdio: 'ignore' })),
    },
    {
      id: 'emulator',
      what: 'flashcore_v6 built before, verified at 1x4x128x64',
      yardstick: 'fa_v1_baseline, the scalar kernel, verified likewise',
      measure: verify('flashcore_v6'),
      measureYardstick: verify('fa_v1_baseline'),
    },
    {
      id: 'start',
      what: 'fa-tui --version',
      yardstick: 'an empty Node program',
      measure: () => timed(() => execFileSync(process.execPath, [FA_TUI, '--version'], { stdio: 'ignore' })),
      measureYardstick: () => timed(() => execFileSync(process.execPath, ['-e', '0'])),
    },
  ];
  const kept = stack.move();
  return { benches, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

const FA_TUI = join(import.meta.dirname, '../../apps/tui/bin/fa-tui.js');

async function repeated(call: () => Promise<unknown>): Promise<number> {
  return timed(async () => {
    for (let index = 0; index < CALLS; index++) await call();
  });
}

/** As the store does it: some hundred rows a transaction, each of them on the disk. */
function insertRows(path: string): void {
  using database = new DatabaseSync(path);
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE IF NOT EXISTS rows (text BLOB)');
  const insert = database.prepare('INSERT INTO rows VALUES (?)');
  for (let row = 0; row < EVENTS; row++) {
    if (row % 200 === 0) database.exec('BEGIN');
    insert.run('x'.repeat(80));
    if (row % 200 === 199) database.exec('COMMIT');
  }
}
