import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { temporaryFolder } from '../testing/test-runner.ts';
import { openDatabase } from './database.ts';
import { DirectoryInUse, lockDirectory, networkDisk } from './directory-lock.ts';

let directory: string;
beforeEach(() => void (directory = mkdtempSync(join(tmpdir(), 'flashcore-lock-'))));
afterEach(() => rmSync(directory, { recursive: true }));

test.skipIf(process.platform !== 'linux').each(['lock.db', 'lock.pid', 'both'])(
  'a directory stays locked if %s is removed',
  (which) => {
    const release = lockDirectory(directory);
    for (const name of which === 'both' ? ['lock.db', 'lock.pid'] : [which]) rmSync(join(directory, name));
    expect(() => lockDirectory(directory)).toThrow(DirectoryInUse);
    if (which !== 'lock.pid') expect(() => lockDirectory(directory)).toThrow(`process ${process.pid})`);
    release();
    lockDirectory(directory)();
  },
);

test.skipIf(process.platform !== 'linux')('a directory that is served stays locked if lock.db is moved away', () => {
  const release = lockDirectory(directory);
  const database = openDatabase(join(directory, 'flashcore.db'));
  const [inside, outside] = [join(directory, 'lock.db.old'), `${directory}.lock`];
  renameSync(join(directory, 'lock.db'), inside);
  expect(() => lockDirectory(directory)).toThrow(`process ${process.pid})`);
  renameSync(inside, outside);
  expect(() => lockDirectory(directory)).toThrow(`process ${process.pid})`);
  release();
  // A backup has the database open without holding the lock: a runner may still start.
  lockDirectory(directory)();
  database.close();
  rmSync(outside);
});

test.each([
  [true, /^Wait until fa-tui's own runner of .* ends, .* or end it \(kill \d+\), or give this one another --data/],
  [false, /^A runner serves .* already \(process \d+\): use that one, or stop it, or give this one another --data/],
])('the error for a directory in use names the other runner: embedded %s', (embedded, wanted) => {
  const release = lockDirectory(directory);
  writeFileSync(join(directory, 'runner.json'), JSON.stringify({ embedded }));
  const error = (() => {
    try {
      return lockDirectory(directory);
    } catch (thrown) {
      return thrown;
    }
  })();
  release();
  expect(error).toBeInstanceOf(DirectoryInUse);
  expect((error as Error).message).toMatch(wanted);
  lockDirectory(directory)();
});

test('a data folder on a network file system is recognized, even before it exists', () => {
  using folder = temporaryFolder();
  const asked: string[] = [];
  const disk = (type: number) =>
    networkDisk(join(folder.path, 'not', 'made'), (path) => {
      asked.push(path);
      return type;
    });
  // SMB's number has its highest bit set, so some versions return it as a negative number.
  expect([0x6969, 0xff534d42 | 0, 0x0bd00bd0, 0xef53].map(disk)).toEqual(['NFS', 'SMB', 'Lustre', undefined]);
  expect(new Set(asked)).toEqual(new Set([folder.path]));
  expect(networkDisk(folder.path)).toBeUndefined();
});
