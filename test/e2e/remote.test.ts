/**
 * fa-tui works with a runner at another address, over TLS with certificates, as it does with the embedded runner: every
 * command, artifacts, files, and a stream that is cut.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Verdict, type GetJobResponse } from '@flashcore/shared/contract';
import { CutProxy } from '../reliability/cut-proxy.ts';
import { Home, ROOT, type CommandResult } from '../support/home.ts';
import { openScreen } from '../support/screens.ts';
import { missing, waitFor } from '@flashcore/shared/testing';

const SHAPE = '1x2x113x64c';
/** The same seed gives the same figures on every machine. */
const VERIFY = ['verify', 'fa_v1_baseline', '--shape', SHAPE, '--seed', '5eed'];
// A container may have no network; then the loopback address plays the other machine.
const host =
  Object.values(networkInterfaces())
    .flat()
    .find((one) => one?.family === 'IPv4' && !one.internal)?.address ?? '127.0.0.1';

// A runner that other machines can reach makes its certificates with openssl, and does not serve without a sandbox.
const NO_HOST = missing('openssl') || missing('bubblewrap');

const box = new Home();
const laptop = new Home();
let address: string;

beforeAll(async () => {
  if (NO_HOST) return;
  expect(box.runnerCommand(['tls', 'init', '--host', host, '--data', box.path])).toMatchObject({ exitCode: 0 });
  ({ address } = await box.startDaemonAt(`${host}:0`));
}, 60_000);
afterAll(async () => {
  await laptop[Symbol.asyncDispose]();
  await box[Symbol.asyncDispose]();
});

const tls = (file: string): string => join(box.path, 'tls', file);
const at = (runner: string): string[] => [
  '--runner',
  runner,
  '--tls-ca',
  tls('ca.crt'),
  '--tls-cert',
  tls('client.crt'),
  '--tls-key',
  tls('client.key'),
];
/** Runs a command against the runner on the other address, from a home without a runner of its own. */
const remote = (...args: string[]): CommandResult => laptop.faTui([...args, ...at(address)]);
const figures = ({ result }: GetJobResponse): unknown =>
  result!.variants[0]!.verify!.cases.map(({ verdict, maxAbsError, meanAbsError, elements }) => [
    Verdict[verdict],
    maxAbsError,
    meanAbsError,
    elements,
  ]);

test.skipIf(NO_HOST)('every command answers as with an embedded runner', { timeout: 180_000 }, () => {
  const files = { record: join(laptop.path, 'events.jsonl'), junit: join(laptop.path, 'junit.xml') };
  const far = laptop.runJson([...VERIFY, '--record', files.record, '--junit', files.junit, ...at(address)]);
  const near = laptop.runJson(VERIFY);
  expect([far.exitCode, far.stderr.split('\n')[0], figures(far.response)]).toEqual([
    0,
    expect.stringContaining(address) as string,
    figures(near.response),
  ]);
  const name = far.response.job!.name;
  expect(readFileSync(files.junit, 'utf8')).toContain(`name="${SHAPE}"`);
  expect(laptop.faTui(['replay', files.record, '--speed', '100'])).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining(name) as string,
  });

  const cubin = laptop
    .runJson(['build', 'fa_v1_baseline', ...at(address)])
    .response.result!.variants[0]!.build!.artifacts.find(({ fileName }) => fileName.endsWith('.cubin'));
  if (cubin) {
    const file = join(laptop.path, 'kernel.cubin');
    expect(remote('artifact', cubin.sha256, '--output', file)).toMatchObject({ exitCode: 0 });
    expect(createHash('sha256').update(readFileSync(file)).digest('hex')).toBe(cubin.sha256);
  }
  // A folder of this machine is uploaded.
  expect(
    remote('run', join(ROOT, 'kernels/fa_v1_baseline'), '--shape', '1x1x64x64', '--seeds', '1', '--max-seconds', '0.2'),
  ).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('Gates') as string });
  expect(
    remote('profile', 'fa_v1_baseline', '--shape', '1x1x64x64', '--save', join(laptop.path, 'k.ncu-rep')),
  ).toMatchObject({
    exitCode: 3,
    stderr: expect.stringMatching(/the emulator counts (on PTX only|instructions and memory)/) as string,
  });
  expect(remote('verify', 'nan_output', '--shape', '1x1x64x64', '--seeds', '1')).toMatchObject({
    exitCode: 1,
    stdout: expect.stringContaining('NAN OUTPUT') as string,
  });
  expect(remote('watch', name)).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(SHAPE) as string });
  expect(remote('kernels')).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('flashcore_v10') as string });
  // Another machine does not learn where the runner keeps its files.
  expect(remote('host')).toMatchObject({
    exitCode: 0,
    stdout: expect.not.stringContaining(box.path) as string,
  });
  expect(remote('history')).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('fa_v1_baseline') as string });
  expect(remote('jobs')).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('nan_output') as string });

  const endless = remote('verify', 'fa_v1_baseline', '--seeds', '100', '--detach').stdout.trim();
  expect(remote('cancel', endless)).toMatchObject({ exitCode: 0 });
  expect(remote('watch', endless)).toMatchObject({
    exitCode: 3,
    stdout: expect.stringContaining('CANCELLED') as string,
  });
});

test.skipIf(NO_HOST)(
  'after a connection is cut in the middle the stream resumes: no event is missing or repeated',
  { timeout: 120_000 },
  async () => {
    await using proxy = await CutProxy.openTcp(host, address);
    // Cut twice during the handshake, then in the middle of the events.
    proxy.cutAfter(2_000, 6_000);
    const file = join(laptop.path, 'cut.jsonl');
    let told = false;
    const { exitCode, stderr } = await faTui([...VERIFY, '--record', file, ...at(proxy.address)], (text) => {
      if (told || !text.includes('jobs/')) return;
      told = true;
      expect(proxy.cuts).toBe(2);
      proxy.cutAfter(300, 6_000);
    });
    expect(exitCode, stderr).toBe(0);
    const numbers = readFileSync(file, 'utf8')
      .trim()
      .split('\n')
      .map((line) => Number((JSON.parse(line) as { sequence: string }).sequence));
    expect(numbers).toEqual(numbers.map((_, index) => index + 1));
    expect(stderr).toContain('connected again');
    expect(proxy.cuts).toBe(2);
  },
);

test.skipIf(NO_HOST)(
  'the terminal program reports the lost connection and resumes, and its log has every event once',
  { timeout: 240_000 },
  async () => {
    await using proxy = await CutProxy.openTcp(host, address);
    const lengths = [144, 160, 176, 192, 208, 224, 240, 256];
    // The last case takes longer than the test, so the job runs until it is cancelled, even if the screen opens late.
    const shapes = [...lengths, 4096].flatMap((length) => ['--shape', `1x2x${length}x64`]);
    const { exitCode, stdout, stderr } = remote('verify', 'fa_v1_baseline', ...shapes, '--seeds', '60', '--detach');
    expect(exitCode, stderr).toBe(0);
    const job = stdout.trim();
    // A screen large enough for the whole log, one row per line.
    const terminal = openScreen(laptop, { args: at(proxy.address), columns: 158, rows: 49 });
    try {
      await terminal.waitFor(/connected[^]*1x2x\d+x64: pass/, 60_000);
      proxy.interrupt();
      await terminal.waitFor(/○ reconnecting/);
      // Earlier output must be in the scrollback.
      expect(terminal.text()).toMatch(/1x2x\d+x64: pass/);
      proxy.restore();
      // Then cut twice more in the middle of the events, after the TLS handshake and some events.
      proxy.cutAfter(15_000, 17_000);
      await waitFor('both cuts', () => proxy.cuts === 2 || undefined, 60_000);
      await terminal.waitFor(/● [^]*connected[^]*1x2x256x64: pass/, 60_000);
      expect(remote('cancel', job)).toMatchObject({ exitCode: 0 });
      await terminal.waitFor(/job +cancelled/, 60_000);
      const file = join(laptop.path, 'lost.jsonl');
      expect(remote('watch', job, '--record', file)).toMatchObject({ exitCode: 3 });
      const told = readFileSync(file, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { caseResult?: { shape: { sequenceLength: number } } });
      const cases = told.flatMap(({ caseResult }) =>
        caseResult ? `1x2x${caseResult.shape.sequenceLength}x64: pass` : [],
      );
      const shown = terminal
        .lines()
        .flatMap((line) => /job +(queued|running on|verify|1x2x\d+x64: pass|cancelled)/.exec(line)?.[1] ?? []);
      expect(cases).toEqual(lengths.map((length) => `1x2x${length}x64: pass`));
      expect(shown).toEqual(['queued', 'running on', 'verify', ...cases, 'cancelled']);
    } finally {
      terminal.kill('SIGKILL');
    }
  },
);

/** Like Home.faTui(), but asynchronous, so that this process can pass on the proxy's bytes meanwhile. */
async function faTui(args: string[], onStderr: (text: string) => void): Promise<CommandResult> {
  const child = spawn(join(ROOT, 'node_modules/.bin/fa-tui'), args, {
    cwd: ROOT,
    env: laptop.env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const text = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (piece: string) => void (text[name] += piece));
  child.stderr.on('data', () => onStderr(text.stderr));
  const { promise, resolve } = Promise.withResolvers<number | null>();
  child.once('close', resolve);
  return { exitCode: await promise, ...text };
}
