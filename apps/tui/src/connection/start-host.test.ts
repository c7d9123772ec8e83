/**
 * Tests hosts that are started for a job and stopped when idle. The hooks leave files, so that the tests see which ran.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { create } from '@bufbuild/protobuf';
import { GetHostResponseSchema, ListJobsResponseSchema } from '@flashcore/shared/contract';
import { serve, type FakeRunner } from '@flashcore/shared/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { runProgram } from '../commands/program.ts';
import type { Hooks } from '../remote/hooks.ts';
import { costSoFar, Instance } from '../remote/instance.ts';
import { connect } from './connect.ts';
import { watchIdle } from './idle-watch.ts';
import { connectToHost, instanceText, startHost } from './start-host.ts';

const PROGRAM = path.resolve(import.meta.dirname, '../../dist/main.js');

let folder: string;
let environment: NodeJS.ProcessEnv;
let runner: FakeRunner | undefined;
let activeJobs: number;

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'fa-host-'));
  environment = { ...process.env, FLASHCORE_HOME: folder, XDG_CONFIG_HOME: folder, XDG_STATE_HOME: folder };
  activeJobs = 0;
});
afterEach(() => {
  runner?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const at = (name: string): string => path.join(folder, name);
const leaves = (name: string): string[] => ['sh', '-c', `echo done >> "${at(name)}"`];

const serveAt = (address: string): Promise<FakeRunner> =>
  serve(
    {
      getHost: (_call, done) =>
        done(
          null,
          create(GetHostResponseSchema, {
            host: { apiVersion: 'v1', activeJobs: activeJobs === 0 ? 0 : activeJobs-- },
          }),
        ),
      listJobs: (_call, done) => done(null, create(ListJobsResponseSchema)),
    },
    address,
  );

/** An address at which no runner listens. */
async function closedAddress(): Promise<string> {
  using gone = await serve({});
  return gone.address;
}

interface Hosting {
  readonly hooks?: Partial<Hooks>;
  readonly mayStart?: boolean;
}

const hosted = (address: string, said: string[], { hooks, mayStart = true }: Hosting = {}) => ({
  runner: address,
  hooks: { limitMinutes: 1, usdPerHour: 2, ...hooks },
  environment,
  connect: () => connect({ runner: address, environment }),
  mayStart,
  startRunner: false,
  notify: (message: string) => void said.push(message),
});

test("a job waits for its host and says so, and the cost is counted from the host's start", async () => {
  const address = await closedAddress();
  const said: string[] = [];
  const connecting = connectToHost(hosted(address, said, { hooks: { start: leaves('started') } }));
  await expect.poll(() => existsSync(at('started'))).toBe(true);
  runner = await serveAt(address);
  const connection = await connecting;
  connection.close();
  expect(said).toEqual([
    expect.stringMatching(/^host: .* can't be reached; starting it at \$2 an hour: sh -c /),
    'host: the start hook is done; waiting for the runner',
    expect.stringMatching(/^host: the runner answers, \d+ s after the start$/),
  ]);
  const record = new Instance(address, environment).read();
  expect(instanceText(record, record.startedAt! + 90 * 60_000)).toBe('up 90 min, about $3.00 so far at $2 an hour');
  expect(costSoFar({ usdPerHour: 2 }, 0)).toBeUndefined();
});

test('commands that only read do not start a host', async () => {
  const address = await closedAddress();
  const start = connectToHost(hosted(address, [], { mayStart: false, hooks: { start: leaves('started') } }));
  await expect(start).rejects.toThrow(`a host that is stopped is started with fa-tui host start ${address},`);
  expect(existsSync(at('started'))).toBe(false);
});

const watching = (address: string, stop: string[]) => {
  const { hooks, ...rest } = hosted(address, []);
  const log: string[] = [];
  const idle = { ...hooks, stop, stopAfterIdleMinutes: 0.1 / 60 };
  return { log, watch: { ...rest, hooks: idle, log: (text: string) => void log.push(text), everyMs: 20 } };
};

test('an idle host is stopped, and a busy one only after its jobs have ended', async () => {
  runner = await serveAt('127.0.0.1:0');
  activeJobs = 12;
  const { watch, log } = watching(runner.address, leaves('stopped'));
  const began = Date.now();
  await watchIdle(watch);
  expect(log.at(-1)).toBe('stopped');
  expect([activeJobs, Date.now() - began >= 100]).toEqual([0, true]);
  expect(readFileSync(at('stopped'), 'utf8')).toBe('done\n');
});

test('a host that could not be stopped is reported to the next client', async () => {
  runner = await serveAt('127.0.0.1:0');
  const failing = ['sh', '-c', `echo x >> "${at('tries')}"; echo "Reauthentication required" >&2; exit 1`];
  await watchIdle(watching(runner.address, failing).watch);
  expect(readFileSync(at('tries'), 'utf8')).toBe('x\nx\nx\n');
  const said: string[] = [];
  (await connectToHost(hosted(runner.address, said))).close();
  expect(said).toEqual([expect.stringMatching(/could not be stopped and still costs money: .*gcloud auth login/)]);
});

test('a watch continues after this machine has slept, and ends silently when another takes over', async () => {
  const address = await closedAddress();
  const now = Date.now;
  const { watch, log } = watching(address, leaves('stopped'));
  const watched = watchIdle(watch);
  try {
    await expect.poll(() => log.filter((text) => text.startsWith('could not ask')).length).toBeGreaterThan(0);
    Date.now = () => now() + 2 * 3_600_000;
    const asked = log.length;
    await expect.poll(() => log.length).toBeGreaterThan(asked + 1);
  } finally {
    Date.now = now;
    new Instance(address, environment).endWatch();
  }
  await watched;
  expect(log.filter((text) => !text.startsWith('could not ask'))).toEqual([`watching ${address}`]);
  expect(new Instance(address, environment).read()).toEqual({});
});

test('a host is watched from the beginning of its start, and the cost of a running host is not counted again', async () => {
  runner = await serveAt('127.0.0.1:0');
  const { address } = runner;
  const [program] = process.argv.splice(1, 1, at('left.cjs'));
  writeFileSync(at('left.cjs'), `require('fs').writeFileSync(${JSON.stringify(at('left'))}, process.argv[3])`);
  const instance = new Instance(address, environment);
  instance.write({ startedAt: 1_000 });
  try {
    const start = ['sh', '-c', `until [ -s "${at('left')}" ]; do sleep 0.02; done; exit 3`];
    const hooks = { start, stop: leaves('stopped'), stopAfterIdleMinutes: 5 };
    await expect(startHost(hosted(address, [], { hooks }))).rejects.toThrow('ended with status 3');
  } finally {
    process.argv.splice(1, 1, program!);
  }
  expect(readFileSync(at('left'), 'utf8')).toBe(address);
  expect(instance.read()).toEqual({ startedAt: 1_000, usdPerHour: 2 });
  expect(Date.now() - instance.lastUsed()).toBeLessThan(60_000);
});

/**
 * Source of a module that a process preloads. In that process a sleep takes only a millisecond, but the clock advances
 * by the sleep's full time.
 */
const FAST_SLEEP = `import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';
const { setTimeout: sleep } = timers;
const { now } = Date;
let slept = 0;
timers.setTimeout = (ms, ...more) => ((slept += ms), sleep(1, ...more));
Date.now = () => now() + slept;
syncBuiltinESMExports();
`;

test('the background process of fa-tui waits for the last job, stops the idle host, and ends', async () => {
  runner = await serveAt('127.0.0.1:0');
  const { address } = runner;
  activeJobs = 4;
  const idle = { start: leaves('started'), stop: leaves('stopped'), stop_after_idle_minutes: 1 };
  writeFileSync(at('fa-tui.yaml'), JSON.stringify({ runner: address, hooks: { [address]: idle } }));
  writeFileSync(at('fast-sleep.mjs'), FAST_SLEEP);
  const NODE_OPTIONS = `--import=${pathToFileURL(at('fast-sleep.mjs')).href}`;
  const env = { ...environment, FA_TUI_CONFIG: at('fa-tui.yaml'), NODE_OPTIONS };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [PROGRAM, 'host', 'start'], { env });
  expect(stdout + stderr).toContain('it is stopped when no job ran for 1 min');
  const instance = new Instance(address, environment);
  await expect.poll(() => existsSync(at('stopped')) && !instance.isWatched(), { timeout: 20_000 }).toBe(true);
  const log = readFileSync(instance.logFile, 'utf8').trim().split('\n');
  expect(log.map((line) => line.replace(/^\S+ /, ''))).toEqual([
    `watching ${address}`,
    `idle for 1 min: stopping ${address}`,
    'stopped',
  ]);
  expect([activeJobs, readFileSync(at('stopped'), 'utf8'), instance.read()]).toEqual([0, 'done\n', {}]);
});

/** The output of `fa-tui host stop` for a runner whose host can be stopped. */
async function stopOf(address: string): Promise<string> {
  const settings = { runner: address, hooks: { [address]: { stop: leaves('stopped') } } };
  writeFileSync(at('fa-tui.yaml'), JSON.stringify(settings));
  let text = '';
  const stream = { isTTY: false, write: (piece: string) => void (text += piece) };
  const surroundings = { stdin: {}, stdout: stream, stderr: stream };
  const code = await runProgram(['host', 'stop'], {
    ...surroundings,
    environment: { ...environment, FA_TUI_CONFIG: at('fa-tui.yaml') },
  });
  return `${code} ${text}`;
}

test('fa-tui host stop does not stop a host whose jobs are unknown, but stops one without a runner', async () => {
  using other = await serve({
    getHost: (_call, done) => done(null, create(GetHostResponseSchema, { host: { apiVersion: 'v9' } })),
  });
  expect(await stopOf(other.address)).toMatch(/^2 .*may have jobs and could not be asked: .*by hand \(sh -c .*v9/s);
  expect(existsSync(at('stopped'))).toBe(false);
  const address = await closedAddress();
  const instance = new Instance(address, environment);
  instance.takeWatch();
  expect(await stopOf(address)).toMatch(/^0 .*: stopped/s);
  expect([existsSync(at('stopped')), instance.isWatched()]).toEqual([true, false]);
});

test('fa-tui host stop does not stop a host with jobs, and otherwise prints how long it was up', async () => {
  runner = await serveAt('127.0.0.1:0');
  const { address } = runner;
  const settings = { runner: address, hooks: { [address]: { stop: leaves('stopped'), usd_per_hour: 2 } } };
  writeFileSync(at('fa-tui.yaml'), JSON.stringify(settings));
  environment = { ...environment, FA_TUI_CONFIG: at('fa-tui.yaml') };
  const faTui = async (...args: string[]): Promise<string> => {
    let text = '';
    const stream = { isTTY: false, write: (piece: string) => void (text += piece) };
    const code = await runProgram(args, { stdin: {}, stdout: stream, stderr: stream, environment });
    return `${code} ${text}`;
  };
  activeJobs = 2;
  expect(await faTui('host', 'stop')).toMatch(/^2 .*has 2 jobs/s);
  activeJobs = 0;
  new Instance(address, environment).write({ startedAt: Date.now() - 30 * 60_000, usdPerHour: 2 });
  expect(await faTui('host')).toContain('about $1.00 so far at $2 an hour');
  expect(await faTui('host', 'stop')).toMatch(/^0 .*stopped; it was up 30 min, about \$1\.00 so far/s);
  expect(new Instance(address, environment).read()).toEqual({});
  expect(await faTui('host', 'start')).toMatch(/^2 .*has no start command/s);
  expect(await faTui('config', 'show')).toMatch(/hooks\.127\.0\.0\.1:\d+\.stop +sh -c/);
});

test('only one process watches a host, and another can take over after it was killed', () => {
  const instance = new Instance('ssh://box', environment);
  expect([instance.takeWatch(), instance.takeWatch()]).toEqual([true, false]);
  instance.leaveWatch();
  expect(instance.isWatched()).toBe(false);
  writeFileSync(instance.logFile.replace(/log$/, 'watch'), `${process.pid} another-boot`);
  expect([instance.isWatched(), instance.ownsWatch()]).toEqual([false, false]);
  expect([instance.takeWatch(2 ** 22 + 1), instance.isWatched(), instance.takeWatch()]).toEqual([true, false, true]);
});
