import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { sha256Of } from '@flashcore/shared/kernels';
import { startTestRunner, temporaryFolder } from '../testing/test-runner.ts';
import { makeTemporary } from './temporary.ts';

test('makeTemporary() makes a private folder in the data folder for each piece of work, and removes it', () => {
  using data = temporaryFolder();
  {
    using first = makeTemporary(data.path, 'ncu');
    using second = makeTemporary(data.path, 'ncu');
    writeFileSync(join(first.path, 'report'), 'x');
    expect(readdirSync(second.path)).toEqual([]);
    expect([statSync(first.path).mode & 0o777, statSync(join(data.path, 'tmp')).mode & 0o777]).toEqual([0o700, 0o700]);
    expect(readdirSync(join(data.path, 'tmp'))).toHaveLength(2);
  }
  expect(readdirSync(join(data.path, 'tmp'))).toEqual([]);
});

test('a starting runner removes unfinished folders of a killed one; complete kernel folders stay', async () => {
  using folder = temporaryFolder();
  const dataDirectory = join(folder.path, 'data');
  const digest = sha256Of('a tree');
  const leftOver = makeTemporary(dataDirectory, 'sdpa');
  writeFileSync(join(leftOver.path, 'tensors'), 'x');
  for (const name of [digest, `${digest}.7c9e6679-7425-40de-944b-e07fc1f90ae7`])
    mkdirSync(join(dataDirectory, 'sources/trees', name), { recursive: true });
  await using fixture = await startTestRunner({ dataDirectory });
  expect(fixture.dataDirectory).toBe(dataDirectory);
  expect([readdirSync(dataDirectory).includes('tmp'), readdirSync(join(dataDirectory, 'sources/trees'))]).toEqual([
    false,
    [digest],
  ]);
});
