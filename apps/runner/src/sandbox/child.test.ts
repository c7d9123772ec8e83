import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { killedWithRunner } from '../testing/child-runner.ts';
import { Child } from './child.ts';

const PIPES = { stdio: ['ignore', 'pipe', 'pipe'] } as const;

test("a child that can't start ends like any other, whether spawn() emits the error or throws it", async () => {
  const missing = new Child('/nonexistent', [], { stdio: [...PIPES.stdio] });
  const tooLong = new Child('/bin/true', ['x'.repeat(1_000_000)], { stdio: [...PIPES.stdio] });
  expect([(await missing.closed).startError, (await tooLong.closed).startError]).toMatchObject([
    { code: 'ENOENT' },
    { code: 'E2BIG' },
  ]);
  tooLong.kill();
  expect([tooLong.pid, await tooLong.closedWithin(0)]).toEqual([undefined, true]);
});

test('without a free descriptor every kind of child fails, and the starting process continues', () => {
  const program = fileURLToPath(new URL('../testing/without-descriptors.ts', import.meta.url));
  const { status, stdout, stderr } = spawnSync(
    '/bin/sh',
    ['-c', 'ulimit -n 64; exec "$0" "$1"', process.execPath, program],
    { encoding: 'utf8', timeout: 20_000 },
  );
  expect({ status, stderr, lines: stdout.trim().split('\n') }).toEqual({
    status: 0,
    stderr: '',
    lines: [
      'compiler: spawn /bin/sh EMFILE',
      'sdpa: no process can be started for PyTorch: spawn /bin/sh EMFILE',
      'worker: {"status":"failed","message":"the worker process can\'t be started: spawn /bin/true EMFILE"}',
    ],
  });
});

test("a group ends with its leader, and kill() reaches the leader's children", async () => {
  const done = new Child('/bin/sh', ['-c', 'sleep 60 & exit 7'], { stdio: [...PIPES.stdio], ownGroup: true });
  expect(await done.closed).toEqual({ exitCode: 7, signalName: null });
  const killed = new Child('/bin/sh', ['-c', 'sleep 60 & wait'], { stdio: [...PIPES.stdio], ownGroup: true });
  killed.kill();
  expect(await killed.closed).toEqual({ exitCode: null, signalName: 'SIGKILL' });
});

test("kill -9 of the runner ends a group, including its leader's children", async ({ skip }) => {
  if (!existsSync('/proc/self')) return skip('for Linux');
  const module = JSON.stringify(new URL('./child.ts', import.meta.url).href);
  const script = `import { Child } from ${module}; new Child('/bin/sh', ['-c', 'sleep 60 & echo $!; wait'], { stdio: ['ignore', 'pipe', 'pipe'], ownGroup: true }).stdout.pipe(process.stdout); setInterval(() => {}, 1000);`;
  expect(await killedWithRunner(script)).toEqual({ ran: true, ended: true });
});

test('ended() waits for the last output, but not forever if another process holds it', async () => {
  const child = new Child('/bin/sh', ['-c', 'sleep 2 & exit 3'], { stdio: [...PIPES.stdio] });
  const started = performance.now();
  expect(await child.ended(200)).toEqual({ exitCode: 3, signalName: null });
  expect([performance.now() - started < 1_500, await child.closedWithin(0), await child.closedWithin(5_000)]).toEqual([
    true,
    false,
    true,
  ]);
});
