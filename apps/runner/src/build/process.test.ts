import { tmpdir } from 'node:os';
import { expect, test } from 'vitest';
import { runProcess } from './process.ts';

const never = new AbortController().signal;

test('runProcess() streams lines of both streams and gives the exit code', async () => {
  const streamed: string[] = [];
  const end = await runProcess('sh', ['-c', 'echo one; echo two >&2; printf three; exit 7'], {
    cwd: tmpdir(),
    limitMs: 5_000,
    signal: never,
    onLine: (line) => streamed.push(line),
  });
  expect({ ...end, seconds: 0, lines: end.lines.toSorted() }).toEqual({
    exitCode: 7,
    timedOut: false,
    seconds: 0,
    lines: ['one', 'three', 'two'],
  });
  expect(streamed).toEqual(end.lines);
});

test('runProcess() kills the whole group at its limit', async () => {
  const started = performance.now();
  const end = await runProcess('sh', ['-c', 'sleep 30 & sleep 30; echo late'], {
    cwd: tmpdir(),
    limitMs: 200,
    signal: never,
  });
  expect([end.timedOut, end.exitCode, end.lines]).toEqual([true, undefined, []]);
  expect(performance.now() - started).toBeLessThan(5_000);
});

test('runProcess() kills and throws the reason when the signal aborts', async () => {
  const controller = new AbortController();
  setTimeout(() => controller.abort(new Error('cancelled')), 100);
  await expect(
    runProcess('sleep', ['30'], { cwd: tmpdir(), limitMs: 20_000, signal: controller.signal }),
  ).rejects.toThrow('cancelled');
});
