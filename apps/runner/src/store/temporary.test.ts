import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { sha256Of } from '@flashcore/shared/kernels';
import { startTestRunner, temporaryFolder } from '../testing/test-runner.ts';
import { makeTemporary } from './temporary.ts';

test('makeTemporary() gives each piece of work a private folder in the data folder, which goes with it', () => {
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

test('a runner removes at its start what a killed one left half-made: temporary folders and kernel folders; whole ones stay', async () => {
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
