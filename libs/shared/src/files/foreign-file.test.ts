import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { readForeignText, whyUnreadable } from './foreign-file.ts';

function folder(): string {
  const made = mkdtempSync(path.join(tmpdir(), 'fc-foreign-'));
  onTestFinished(() => rmSync(made, { recursive: true }));
  return made;
}

/** The user's error text for a file with this size limit. */
function told(file: string, most: number): string {
  try {
    readForeignText(file, most);
  } catch (error) {
    return whyUnreadable(error);
  }
  throw new Error(`${file} was read`);
}

test('reads a file of exactly the maximum size, also through a link, and refuses one byte more', () => {
  const file = path.join(folder(), 'file');
  writeFileSync(file, 'x'.repeat(2048));
  symlinkSync(file, `${file}.link`);
  expect(readForeignText(`${file}.link`, 2048)).toBe('x'.repeat(2048));
  expect(told(file, 1024)).toBe('more than 1 KiB');
});

test.each([
  ['a pipe that nobody writes to', (at: string) => void execFileSync('mkfifo', [at])],
  ['a link to a device without an end', (at: string) => symlinkSync('/dev/zero', at)],
])('%s is refused at once because it is not a regular file', (_, make) => {
  const file = path.join(folder(), 'file');
  make(file);
  expect(told(file, 1024)).toBe('a pipe or a device, and only a file is read');
});

test("keeps the system's error codes", () => {
  expect(told(folder(), 1024)).toBe('EISDIR');
  expect(told(path.join(folder(), 'none'), 1024)).toBe('ENOENT');
});
