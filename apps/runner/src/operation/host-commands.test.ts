import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isOwnData } from '@flashcore/shared/files';
import { afterEach, expect, test, vi } from 'vitest';
import { temporaryFolder } from '../testing/test-runner.ts';
import { purge } from './host-commands.ts';

/** Names that the runner passes to makeTemporary(), whose folders are below `tmp` in the data folder. */
const TEMPORARY = ['sdpa', 'ncu', 'sanitize', 'sass', 'rivals'];

afterEach(() => vi.unstubAllEnvs());

test('purge() refuses a home that is also the data folder, because its folder "sources" may belong to the user', () => {
  using home = temporaryFolder();
  writeFileSync(join(home.path, 'flashcore.db'), '');
  mkdirSync(join(home.path, 'sources'));
  vi.stubEnv('HOME', home.path);
  expect(() => purge(home.path)).toThrow('it is your home');
  expect(existsSync(join(home.path, 'sources'))).toBe(true);
});

test('every name that the runner makes in its data folder is purged', () => {
  const folder = join(import.meta.dirname, '..');
  const names = globSync('**/*.ts', { cwd: folder, exclude: ['**/*.test.ts', 'testing/**'] })
    .map((file) => readFileSync(join(folder, file), 'utf8'))
    .flatMap((text) => [...text.matchAll(/ataDirectory, '([^'/]+)[/']/g)].map(([, name]) => name!));
  expect(names).toEqual(expect.arrayContaining(['artifacts', 'executors', 'flashcore.db', 'references', 'room']));
  expect(names.filter((name) => !isOwnData(name) && !TEMPORARY.includes(name))).toEqual([]);
});
