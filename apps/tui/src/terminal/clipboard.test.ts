import { readFileSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { clipboard } from './clipboard.ts';

test('what is copied goes to the terminal as OSC 52 and into a file for the user alone; what is too long only into the file', () => {
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
