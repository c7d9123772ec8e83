import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { TEST_HOST } from '@flashcore/runner/testing';
import { collect, createPlanner, kernel, startTestRunner, temporaryFolder } from '@flashcore/runner/testing-daemon';
import type { RunnerClient } from '@flashcore/shared/client';
import { parseShape } from '@flashcore/shared/kernels';
import { cpuMs, missing } from '@flashcore/shared/testing';
import type { Bench } from './ratios.ts';
import { openEcho } from './echo.ts';

const ROOT = join(import.meta.dirname, '../..');
const FA_TUI = join(ROOT, 'apps/tui/bin/fa-tui.js');
const CALLS = 200;
const EVENTS = 5_000;
const SHAPE = parseShape('1x4x128x64');

/** Milliseconds that the work takes. */
async function timed(work: () => unknown): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

/**
 * Milliseconds of processor time that this process (client and runner together) spends on the work. Other load on the
 * machine hardly changes this figure.
 */
async function computed(work: () => unknown): Promise<number> {
  const before = cpuMs();
  await work();
  return cpuMs() - before;
}

/** The program that measures how fast fa-tui draws its screens, built by `node tools/build.mjs bench`. */
interface Frames {
  viewFrames(): Promise<number>;
  logFrames(): Promise<number>;
  emptyFrames(): Promise<number>;
}

const FRAMES_PROGRAM = join(import.meta.dirname, '../dist/bench/frames.js');

/** The benches in the order in which they run. Each function opens the runner or the files that its bench needs. */
const BENCHES = {
  rpc: async (stack) => {
    const folder = stack.use(temporaryFolder()).path;
    const { client } = stack.use(await startTestRunner());
    const echo = stack.use(await openEcho(join(folder, 'echo')));
    const [started] = await collect(client.start('build', kernel('ok')));
    return {
      what: `${CALLS} GetJob, one after another`,
      yardstick: 'a bare grpc-js echo',
      measure: () => repeated(() => client.getJob({ name: started!.job })),
      measureYardstick: () => repeated(() => echo.call()),
    };
  },
  events: async (stack) => {
    const folder = stack.use(temporaryFolder()).path;
    const { client } = stack.use(await startTestRunner());
    return {
      what: `${EVENTS} log lines stored and streamed`,
      yardstick: 'SQLite inserts of as many rows alone',
      measure: () => computed(() => collect(client.start('build', kernel(`flood_${EVENTS}`)))),
      measureYardstick: () => computed(() => insertRows(join(folder, 'rows.db'))),
    };
  },
  'compile-error': async (stack) => {
    const client = await realRunner(stack);
    const { name, command } = bareCompiler();
    return {
      what: 'from a save to the compile error',
      yardstick: `${name} alone on the same source`,
      measure: () => timed(() => collect(client.start('build', kernel('syntax_error')))),
      measureYardstick: () => timed(() => spawnSync(command[0]!, command.slice(1), { stdio: 'ignore' })),
    };
  },
  emulator: async (stack) => {
    const client = await realRunner(stack);
    const verify = (kernelId: string) => () =>
      timed(() =>
        collect(client.start('verify', { ...kernel(kernelId), settings: { shapes: [SHAPE], seedCount: 1 } })),
      );
    return {
      what: 'flashcore_v6 built before, verified at 1x4x128x64',
      // The runner's default engine, `auto`, chooses between fibres and PTX.
      yardstick: `fa_v1_baseline, the scalar kernel, verified likewise, on ${missing('nvcc') && missing('clang') ? 'fibres' : 'PTX'}`,
      measure: verify('flashcore_v6'),
      measureYardstick: verify('fa_v1_baseline'),
    };
  },
  frame: async () => {
    const frames = (await import(FRAMES_PROGRAM)) as Frames;
    return {
      what: 'frames of another view each, 120x40',
      yardstick: 'as many frames of an empty Ink program',
      measure: () => frames.viewFrames(),
      measureYardstick: () => frames.emptyFrames(),
    };
  },
  'log-lines': async () => {
    const frames = (await import(FRAMES_PROGRAM)) as Frames;
    return {
      what: 'frames that follow a log, 250 new lines each',
      yardstick: 'as many frames of an empty Ink program',
      measure: () => frames.logFrames(),
      measureYardstick: () => frames.emptyFrames(),
    };
  },
  start: () =>
    Promise.resolve({
      what: `${STARTS} starts of fa-tui --version`,
      yardstick: 'as many of an empty Node program',
      measure: () => Promise.resolve(startedCpuMs([FA_TUI, '--version'])),
      measureYardstick: () => Promise.resolve(startedCpuMs(['-e', '0'])),
    }),
} satisfies Record<string, (stack: AsyncDisposableStack) => Promise<Omit<Bench, 'id'>>>;

const BENCH_IDS: readonly string[] = Object.keys(BENCHES);

/** Opens the named benches and everything that they need. Disposing of the result closes all of it. */
export async function openBenches(ids: readonly string[]): Promise<AsyncDisposable & { benches: Bench[] }> {
  await using stack = new AsyncDisposableStack();
  const benches: Bench[] = [];
  for (const id of ids) benches.push({ id, ...(await BENCHES[id as keyof typeof BENCHES](stack)) });
  const kept = stack.move();
  return { benches, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

async function realRunner(stack: AsyncDisposableStack): Promise<RunnerClient> {
  const createWithHost: typeof createPlanner = (options) => createPlanner({ ...options, host: TEST_HOST });
  const start = () => startTestRunner({ createPlanner: createWithHost });
  // Client and runner share this process, so on a busy machine the first call may exceed its limit of five seconds. Try
  // three times.
  return stack.use(await start().catch(start).catch(start)).client;
}

const STARTS = 4;
/** Length of a tick in Linux's /proc. */
const MS_A_TICK = 10;

/**
 * Milliseconds of processor time that Node takes to run a program. The program runs four times because the system
 * counts in hundredths of a second.
 */
function startedCpuMs(args: string[]): number {
  const before = childrenTicks();
  for (let index = 0; index < STARTS; index++) execFileSync(process.execPath, args, { stdio: 'ignore' });
  return (childrenTicks() - before) * MS_A_TICK;
}

/** Processor time (user and system) of this process's ended children. */
function childrenTicks(): number {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1]!.split(' ');
  return Number(fields[13]) + Number(fields[14]);
}

/** Finds a compiler on PATH, and the command that calls it directly on the kernel with the compile error. */
function bareCompiler(): { name: string; command: string[] } {
  const source = join(ROOT, 'kernels/faulty/syntax_error/syntax_error.cu');
  const includes = ['-I', join(ROOT, 'kernels')];
  if (spawnSync('nvcc', ['--version'], { stdio: 'ignore' }).status === 0)
    return { name: 'nvcc', command: ['nvcc', '-cubin', '-arch=sm_89', '-o', '/dev/null', ...includes, source] };
  const headers = ['-I', join(ROOT, 'libs/emulator/include'), '-include', 'flashcore_emulator.h'];
  return { name: 'c++', command: ['c++', '-std=c++17', '-fsyntax-only', '-x', 'c++', ...headers, ...includes, source] };
}

async function repeated(call: () => Promise<unknown>): Promise<number> {
  return computed(async () => {
    for (let index = 0; index < CALLS; index++) await call();
  });
}

/**
 * Inserts rows as the runner's store does: some hundred per transaction, and each transaction is synced to the disk.
 */
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

export const UNKNOWN_BENCH = 2;

/**
 * The benches named in a comma-separated list, or all benches if the list is undefined. Ends the program with exit code
 * 2 if a name is unknown.
 */
export function wantedBenches(list: string | undefined): readonly string[] {
  const ids = list?.split(',') ?? BENCH_IDS;
  const unknown = ids.find((id) => !BENCH_IDS.includes(id));
  if (unknown === undefined) return ids;
  console.error(`no bench ${JSON.stringify(unknown)}: must be one of ${BENCH_IDS.join(', ')}`);
  process.exit(UNKNOWN_BENCH);
}
