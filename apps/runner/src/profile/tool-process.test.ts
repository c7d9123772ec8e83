import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { processGone, runs } from '../testing/process-gone.ts';
import { runTool } from './tool-process.ts';

/** A "profiler" around a program that never ends; prints the program's process id. */
const TOOL = ['-c', 'sleep 60 & echo $!; wait'];

test('a tool past its limit is killed, with the program that it had started', async ({ skip }) => {
  if (!existsSync('/proc/self')) return skip('for Linux');
  const { exitCode, lines } = await runTool('/bin/sh', TOOL, {
    limitMs: 300,
    signal: new AbortController().signal,
    onLine: () => undefined,
  });
  expect([exitCode, await processGone(Number(lines[0]))]).toEqual([undefined, true]);
});

test('kill -9 of the runner leaves no profiled program on the device', async ({ skip }) => {
  if (!existsSync('/proc/self')) return skip('for Linux');
  const module = JSON.stringify(new URL('./tool-process.ts', import.meta.url).href);
  const script = `import { runTool } from ${module}; await runTool('/bin/sh', ${JSON.stringify(TOOL)}, { limitMs: 60_000, signal: new AbortController().signal, onLine: (line) => process.stdout.write(line) });`;
  const runner = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [pid] = (await once(runner.stdout, 'data')) as [Buffer];
  expect(runs(Number(pid))).toBe(true);
  runner.kill('SIGKILL');
  expect(await processGone(Number(pid))).toBe(true);
});
