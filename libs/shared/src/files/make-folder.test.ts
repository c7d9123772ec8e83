import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeFolder } from './make-folder.ts';

test('makeFolder() makes what is missing, for this user alone, and leaves what is there', () => {
  const root = mkdtempSync(join(tmpdir(), 'fc-'));
  makeFolder(join(root, 'a/b'));
  makeFolder(join(root, 'a/b'));
  writeFileSync(join(root, 'file'), '');
  expect(statSync(join(root, 'a')).mode & 0o777).toBe(0o700);
  expect(() => makeFolder(join(root, 'file/c'))).toThrow(expect.objectContaining({ code: 'ENOTDIR' }) as Error);
  rmSync(root, { recursive: true });
});

test.runIf(process.platform === 'linux')('where no folder can be made it says so, and does not try for ever', () => {
  expect(() => makeFolder('/proc/flashcore/data')).toThrow(expect.objectContaining({ code: 'ENOENT' }) as Error);
});
