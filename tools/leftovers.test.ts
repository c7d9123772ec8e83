import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { expect, test, vi } from 'vitest';
import { endLeftovers, FILE } from './leftovers.ts';

test.skipIf(!existsSync('/proc/self/environ'))(
  'endLeftovers() ends what a file has started, its groups and their children too, and nothing of another file',
  async () => {
    const start = (mark: string) =>
      spawn('sh', ['-c', 'setsid sleep 300 & echo $!; wait'], {
        env: { ...process.env, [FILE]: mark },
        stdio: ['ignore', 'pipe', 'ignore'],
        detached: true,
      });
    const [mine, other] = [start('run/mine'), start('run/other')];
    const pids = await Promise.all([once(mine.stdout, 'data'), once(other.stdout, 'data')]);
    // While a process executes another program, /proc does not show its environment.
    for (const [pid] of pids)
      await vi.waitFor(() => expect(readFileSync(`/proc/${String(pid).trim()}/comm`, 'utf8')).toBe('sleep\n'));
    const ended = once(mine, 'exit');
    // Two processes: the shell, and the process that has left the shell's session.
    expect(endLeftovers('run/mine')).toHaveLength(2);
    expect(await ended).toEqual([null, 'SIGKILL']);
    expect([other.exitCode, other.signalCode]).toEqual([null, null]);
    expect(endLeftovers('run/').some(({ pid }) => pid === other.pid)).toBe(true);
    expect(endLeftovers('run/none')).toEqual([]);
  },
);

test('each test file has its own mark', () => {
  expect(process.env[FILE]).toMatch(/^[\w-]{36}\/[\w-]{36}$/);
});
