import { spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  appendFileSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { FlashcoreError } from '@flashcore/shared/contract';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ALL_TESTS, until } from '@flashcore/shared/testing';
import { isRunning } from '@flashcore/shared/files';
import { readRunnerRecord, runnerProgram } from './data-directory.ts';
import { ensureEmbeddedRunner, type EmbeddedRunner } from './embedded-runner.ts';

const ROOT = fileURLToPath(new URL('../../../..', import.meta.url));

let folder: string;
let directory: string;
const connected: EmbeddedRunner[] = [];

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'fa-'));
  directory = path.join(folder, 'data');
});

afterEach(async () => {
  connected.splice(0).forEach(({ client }) => client.close());
  for (const pid of runnersOfFolder()) await kill(pid);
  rmSync(folder, { recursive: true, force: true });
});

interface Ensured {
  program?: string;
  notify?: (message: string) => void;
  startLimitMs?: number;
}

async function ensure(options: Ensured = {}): Promise<EmbeddedRunner> {
  const runner = await ensureEmbeddedRunner({ directory, environment: process.env, ...options });
  connected.push(runner);
  return runner;
}

/**
 * All processes that were started for the folder, because killing only the recorded runner is not enough: a runner that
 * lost the race to serve the folder would take over and write to the folder after its removal. Without /proc, only the
 * recorded runner.
 */
function runnersOfFolder(): number[] {
  if (!existsSync('/proc/self/cmdline')) return [readRunnerRecord(directory)?.pid ?? []].flat();
  const pids = readdirSync('/proc').map(Number);
  // The runners that lost the race come first, so that none of them takes over when the recorded runner is killed.
  const recorded = readRunnerRecord(directory)?.pid;
  return pids.filter(isOfFolder).toSorted((a, b) => Number(a === recorded) - Number(b === recorded));
}

function isOfFolder(pid: number): boolean {
  if (!Number.isInteger(pid)) return false;
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(directory);
  } catch {
    return false; // the process has ended since /proc was listed
  }
}

async function kill(pid: number): Promise<void> {
  if (isRunning(pid)) process.kill(pid, 'SIGKILL');
  await until(() => !isRunning(pid));
}

/**
 * Copies the built runner to another folder, in which the runner finds kernels and proto at the usual relative paths.
 */
function otherCheckout(): string {
  const dist = path.join(folder, 'apps/runner/dist');
  const built = path.dirname(runnerProgram());
  cpSync(built, dist, { recursive: true, filter: (source) => source !== path.join(built, 'testing') });
  for (const name of ['kernels', 'problems', 'proto', 'node_modules'])
    symlinkSync(path.join(ROOT, name), path.join(folder, name));
  mkdirSync(path.join(folder, 'apps/runner'), { recursive: true });
  mkdirSync(path.join(folder, 'libs'), { recursive: true });
  symlinkSync(path.join(ROOT, 'libs/emulator'), path.join(folder, 'libs/emulator'));
  // Sources that the runner compiles for itself. Without them every job of this runner would fail at once.
  symlinkSync(path.join(ROOT, 'apps/runner/worker'), path.join(folder, 'apps/runner/worker'));
  return path.join(dist, 'main.js');
}

/** Another checkout, whose runner has a different digest. */
function otherBuild(): string {
  const program = otherCheckout();
  appendFileSync(program, '// another build\n');
  return program;
}

test('a runner is started once: clients that start at the same time and later clients connect to the same one', async () => {
  const [first, ...others] = await Promise.all([ensure(), ensure(), ensure()]);
  const later = await ensure();
  expect(first.client.host).toMatchObject({ embedded: true, dataDirectory: directory, processId: first.pid });
  for (const { pid, address } of [...others, later]) expect([pid, address]).toEqual([first.pid, first.address]);
});

// apps/runner/src/daemon.test.ts has a short form of this: a second runner takes the directory of a killed one.
if (ALL_TESTS)
  test('after kill -9 another runner takes over the directory', async () => {
    const first = await ensure();
    await kill(first.pid);
    const second = await ensure();
    expect(second.pid).not.toBe(first.pid);
    expect(second.address).toBe(first.address);
  });

test('an idle runner of another build is replaced, with a message', async () => {
  const older = await ensure({ program: otherBuild() });
  const said: string[] = [];
  const newer = await ensure({ notify: (message) => said.push(message) });
  expect(newer.pid).not.toBe(older.pid);
  expect(isRunning(older.pid)).toBe(false);
  expect(said).toEqual([`runner: process ${older.pid} is of another build: replaced`]);
});

if (ALL_TESTS)
  test('an idle runner of another checkout is replaced, because its kernels are different', async () => {
    const program = otherCheckout();
    const older = await ensure({ program });
    const said: string[] = [];
    const newer = await ensure({ notify: (message) => said.push(message) });
    expect(newer.pid).not.toBe(older.pid);
    expect(said).toEqual([`runner: process ${older.pid} is of another checkout (${program}): replaced`]);
  });

if (ALL_TESTS)
  test('a runner of another build that its owner serves is never ended, even when it is idle', async () => {
    const socket = path.join(folder, 'served.sock');
    const served = spawn(
      process.execPath,
      [otherBuild(), 'serve', '--data', directory, '--address', `unix:${socket}`],
      {
        stdio: 'ignore',
      },
    );
    await until(() => readRunnerRecord(directory) !== undefined);
    const said: string[] = [];
    const found = await ensure({ notify: (message) => said.push(message) });
    expect([found.pid, found.address, found.embedded]).toEqual([served.pid, `unix:${socket}`, false]);
    expect(isRunning(served.pid!)).toBe(true);
    expect(said).toEqual([
      `runner: process ${served.pid} is of another build and was started by \`serve\`: used as it is; to replace it, end it`,
    ]);
  });

if (ALL_TESTS)
  test('a busy runner of another build is used unchanged', async () => {
    const older = await ensure({ program: otherBuild() });
    const verify = older.client.start('verify', {
      kernel: { source: { case: 'kernelId', value: 'fa_v1_baseline' } },
      settings: { seedCount: 100 },
    });
    const job = (await verify.next()).value!.job;
    const said: string[] = [];
    const found = await ensure({ notify: (message) => said.push(message) });
    expect(found.pid).toBe(older.pid);
    expect(said).toEqual([
      `runner: process ${older.pid} is of another build and has 1 job(s): used as it is, replaced when it is idle`,
    ]);
    await older.client.cancelJob({ name: job });
    await verify.return();
  });

test('the error about a runner that fails to start comes at once and contains the end of its log', async () => {
  const program = path.join(folder, 'main.js');
  writeFileSync(program, 'throw new Error("no such luck");');
  writeFileSync(path.join(folder, 'worker.js'), '');
  const startedAt = Date.now();
  const error: unknown = await ensure({ program }).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(FlashcoreError);
  expect(error).toMatchObject({
    reason: 'RUNNER_UNREACHABLE',
    message: expect.stringMatching(/ended with status 1[\s\S]*no such luck/) as string,
  });
  expect(Date.now() - startedAt).toBeLessThan(5_000);
});

test('the error about a runner that is not built says how to build it', async () => {
  const program = path.join(folder, 'nowhere.js');
  await expect(ensure({ program })).rejects.toThrow(/Run: npm ci --ignore-scripts=false$/);
  expect(existsSync(directory)).toBe(false);
});

test('a runner that never answers is ended at the limit, with a message that has no records of the log', async () => {
  const program = path.join(folder, 'main.js');
  writeFileSync(program, `console.error('{"level":40,"msg":"cgroups of boxes"}'); setInterval(() => undefined, 1000);`);
  writeFileSync(path.join(folder, 'worker.js'), '');
  await expect(ensure({ program, startLimitMs: 600 })).rejects.toThrow(
    `The runner did not start within 0.6 s; see ${path.join(directory, 'runner.log')}`,
  );
  await until(() => runnersOfFolder().length === 0);
});

test('a runner that listens but does not answer yet is waited for, and no other one is started', async () => {
  const server = createServer();
  const socket = path.join(folder, 'slow.sock');
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  mkdirSync(directory);
  const record = { pid: process.pid, address: `unix:${socket}`, buildId: 'slow', embedded: true };
  writeFileSync(path.join(directory, 'runner.json'), JSON.stringify(record));
  await expect(ensure({ startLimitMs: 300 })).rejects.toThrow(/^The runner did not start within 0.3 s; see \S+$/);
  expect(existsSync(path.join(directory, 'runner.log'))).toBe(false);
  server.close();
});

test('a client whose runner lost the directory to another waits for the other', async () => {
  mkdirSync(directory);
  const lock = new DatabaseSync(path.join(directory, 'lock.db'));
  lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  writeFileSync(path.join(directory, 'lock.pid'), String(process.pid));
  const waiting = ensure({ startLimitMs: 60_000 });
  const log = path.join(directory, 'runner.log');
  await until(() => existsSync(log) && readFileSync(log, 'utf8').includes("two can't share one"));
  lock.close();
  rmSync(path.join(directory, 'lock.pid'));
  const runner = await waiting;
  expect(readRunnerRecord(directory)?.pid).toBe(runner.pid);
}, 180_000);
