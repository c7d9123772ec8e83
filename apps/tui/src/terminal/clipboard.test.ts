import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { missing } from '@flashcore/shared/testing';
import { clipboard } from './clipboard.ts';

test('a copy goes to the terminal as OSC 52 and into a private file; a long text goes only into the file', () => {
  const written: string[] = [];
  const copy = clipboard({ write: (text) => written.push(text) });
  const short = copy('p50 52.1 µs\n', 'line.txt');
  expect(written).toEqual([`\u001b]52;c;${Buffer.from('p50 52.1 µs\n').toString('base64')}\u0007`]);
  expect([short.sent, readFileSync(short.file, 'utf8'), statSync(short.file).mode & 0o777]).toEqual([
    true,
    'p50 52.1 µs\n',
    0o600,
  ]);
  const long = copy('x'.repeat(60_000), 'run.json');
  expect([long.sent, written.length, readFileSync(long.file, 'utf8').length]).toEqual([false, 1, 60_000]);
  rmSync(path.dirname(short.file), { recursive: true });
});

test.skipIf(missing('tmux'))("inside tmux a copy of any length goes into tmux's own buffer", () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'fa-tmux-'));
  const tmux = (...words: string[]): string =>
    execFileSync('tmux', ['-S', path.join(folder, 's'), '-f', '/dev/null', ...words], { encoding: 'utf8' });
  try {
    tmux('new-session', '-d', '-x', '80', '-y', '24', 'sleep 60');
    const environment = { ...process.env, TMUX: `${path.join(folder, 's')},0,0` };
    const long = 'a line of the log\n'.repeat(12_000);
    const copied = clipboard({ write: () => true }, environment)(long, 'run.txt');
    expect([copied.inTmux, copied.sent, tmux('show-buffer')]).toEqual([true, false, long]);
    rmSync(path.dirname(copied.file), { recursive: true });
  } finally {
    tmux('kill-server');
    rmSync(folder, { recursive: true });
  }
});
