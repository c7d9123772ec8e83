import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeFolder } from './user-folders.ts';

test('makeFolder() creates missing folders for this user only and leaves existing ones unchanged', () => {
  const root = mkdtempSync(join(tmpdir(), 'fc-'));
  makeFolder(join(root, 'a/b'));
  makeFolder(join(root, 'a/b'));
  writeFileSync(join(root, 'file'), '');
  expect(statSync(join(root, 'a')).mode & 0o777).toBe(0o700);
  expect(() => makeFolder(join(root, 'file/c'))).toThrow(expect.objectContaining({ code: 'ENOTDIR' }) as Error);
  rmSync(root, { recursive: true });
});

test.runIf(process.platform === 'linux')('makeFolder() throws if no folder can be created', () => {
  expect(() => makeFolder('/proc/flashcore/data')).toThrow(expect.objectContaining({ code: 'ENOENT' }) as Error);
});
