import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { PassThrough } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { killedWithRunner, processGone } from '../testing/child-runner.ts';
import { hostLoad, runProgram, MAX_LINE_LENGTH, onBoundedLines } from './run.ts';

const never = new AbortController().signal;

test('runProgram() streams lines of both streams and returns the exit code', async () => {
  const streamed: string[] = [];
  const end = await runProgram('sh', ['-c', 'echo one; echo two >&2; printf three; exit 7'], {
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

test('runProgram() returns the first and the last of very many lines, and the number of lines between', async () => {
  const { lines } = await runProgram('seq', ['9000'], { limitMs: 10_000, signal: never });
  const numbers = (first: number, last: number): string[] =>
    Array.from({ length: last - first + 1 }, (_, index) => String(first + index));
  expect(lines).toEqual([...numbers(1, 4_000), '… 4000 lines left out', ...numbers(8_001, 9_000)]);
  const few = await runProgram('seq', ['4500'], { limitMs: 10_000, signal: never });
  expect(few.lines).toEqual(numbers(1, 4_500));
});

test('runProgram() kills the whole group at its limit', async () => {
  const started = performance.now();
  const end = await runProgram('sh', ['-c', 'sleep 30 & sleep 30; echo late'], {
    cwd: tmpdir(),
    limitMs: 200,
    signal: never,
  });
  expect([end.timedOut, end.exitCode, end.lines]).toEqual([true, undefined, []]);
  expect(performance.now() - started).toBeLessThan(5_000);
});

test('a program that reaches its limit on a busy host gets more time, by the growth factor', async () => {
  const asleep = async (seconds: number): Promise<boolean> => {
    const options = { limitMs: 200, growth: () => 5, signal: never };
    return (await runProgram('sleep', [String(seconds)], options)).timedOut;
  };
  expect([await asleep(0.4), await asleep(30)]).toEqual([false, true]);
});

test('hostLoad() is from 1 to 5', () => {
  expect(hostLoad()).toBeGreaterThanOrEqual(1);
  expect(hostLoad()).toBeLessThanOrEqual(5);
});

test('runProgram() kills and throws the reason when the signal aborts', async () => {
  const controller = new AbortController();
  await expect(
    runProgram('sh', ['-c', 'echo up; sleep 30'], {
      cwd: tmpdir(),
      limitMs: 20_000,
      signal: controller.signal,
      onLine: () => controller.abort(new Error('cancelled')),
    }),
  ).rejects.toThrow('cancelled');
});

/** A "profiler" around a program that never ends; prints that program's process id. */
const TOOL = ['-c', 'sleep 60 & echo $!; wait'];

test('a tool past its limit is killed, with the program that it started', async ({ skip }) => {
  if (!existsSync('/proc/self')) return skip('for Linux');
  const { exitCode, lines } = await runProgram('/bin/sh', TOOL, {
    limitMs: 300,
    signal: new AbortController().signal,
  });
  expect([exitCode, await processGone(Number(lines[0]))]).toEqual([undefined, true]);
});

test('kill -9 of the runner leaves no profiled program on the device', async ({ skip }) => {
  if (!existsSync('/proc/self')) return skip('for Linux');
  const module = JSON.stringify(new URL('./run.ts', import.meta.url).href);
  const script = `import { runProgram } from ${module}; await runProgram('/bin/sh', ${JSON.stringify(TOOL)}, { limitMs: 60_000, signal: new AbortController().signal, onLine: (line) => process.stdout.write(line) });`;
  expect(await killedWithRunner(script)).toEqual({ ran: true, ended: true });
});

async function linesOf(...chunks: string[]): Promise<string[]> {
  const stream = new PassThrough();
  const lines: string[] = [];
  onBoundedLines(stream, (line) => lines.push(line));
  for (const chunk of chunks) stream.write(chunk);
  stream.end();
  await turn();
  return lines;
}

test('joins lines from chunks, including a last line without line end', async () => {
  expect(await linesOf('a\nb', 'c\n\nd')).toEqual(['a', 'bc', '', 'd']);
});

test('a line without end is passed on in pieces as it grows', async () => {
  const lines = await linesOf(...Array.from({ length: 100 }, () => 'x'.repeat(1000)));
  expect([lines.length, Math.max(...lines.map(({ length }) => length)), lines.join('').length]).toEqual([
    Math.ceil(100_000 / MAX_LINE_LENGTH),
    MAX_LINE_LENGTH,
    100_000,
  ]);
});
