import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../testing/test-runner.ts';
import { networkDisk } from './network-disk.ts';

test('a data folder on a network’s file system is recognized, even before it exists', () => {
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
