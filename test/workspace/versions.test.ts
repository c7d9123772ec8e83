/** Checks what docs/versions.md promises about the API, the changelog and the version numbers. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { edited, temporaryFolder } from '@flashcore/shared/testing';
import { ROOT } from '../support/home.ts';

const versionOf = (folder: string): string =>
  (JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8')) as { version: string }).version;

// A temporary folder, because a cache in the user's home would stay there.
let cache = '';
beforeAll(() => {
  cache = mkdtempSync(join(tmpdir(), 'flashcore-buf-'));
});
afterAll(() => rmSync(cache, { recursive: true }));

/** buf's report of incompatible changes from the released API to the API in a folder. Empty if clients keep working. */
const breaks = (folder: string): string => {
  const args = ['breaking', folder, '--against', 'proto/released.binpb'];
  const { stdout, stderr } = spawnSync(join(ROOT, 'node_modules/.bin/buf'), args, {
    cwd: ROOT,
    env: { ...process.env, BUF_CACHE_DIR: cache },
    encoding: 'utf8',
  });
  return stdout + stderr;
};

test('the API has everything that the released version had', { timeout: 60_000 }, () => {
  expect(breaks('proto')).toBe('');
});

test('a removed field is found', { timeout: 60_000 }, () => {
  using folder = temporaryFolder();
  cpSync(join(ROOT, 'proto'), folder.path, { recursive: true });
  const file = join(folder.path, 'flashcore/runner/v1/job.proto');
  writeFileSync(file, edited(readFileSync(file, 'utf8'), /^ {2}optional string request_id = \d+;$/m, ''));
  expect(breaks(folder.path)).toMatch(/request_id/);
});

test('every package has the version of the repository', () => {
  const version = versionOf('.');
  const folders = ['apps/runner', 'apps/tui', 'libs/emulator', 'libs/shared', 'tools', 'test', 'lab'];
  expect(folders.filter((folder) => versionOf(folder) !== version)).toEqual([]);
});

test('package-lock.json has the address of every tarball, so that npm ci takes what it can from its cache', () => {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { link?: true; resolved?: string }>;
  };
  const installed = Object.entries(packages).filter(([path, { link }]) => path.includes('node_modules/') && !link);
  const unknown = installed.filter(([, { resolved }]) => !resolved?.startsWith('https://registry.npmjs.org/'));
  expect(installed.length).toBeGreaterThan(100);
  expect(unknown.map(([path]) => path)).toEqual([]);
});

test('the changelog lists its versions from the latest on, and has the version of package.json or marks it as unreleased', () => {
  const titles = [...readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8').matchAll(/^## (.*)$/gm)].map(
    ([, title]) => title!,
  );
  const versions = titles.filter((title) => title !== 'Unreleased');
  expect(versions.filter((title) => !/^\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)$/.test(title))).toEqual([]);
  const numbers = versions.map((title) => title.split(' ')[0]!);
  const latestFirst = numbers.toSorted((one, other) => other.localeCompare(one, 'en', { numeric: true }));
  expect(numbers).toEqual(latestFirst);
  expect([numbers[0], titles[0]]).toContainEqual(titles.includes('Unreleased') ? 'Unreleased' : versionOf('.'));
});
