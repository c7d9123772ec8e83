import { copyFileSync, readFileSync, readdirSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { JobState, Outcome } from '@flashcore/shared/contract';
import { until } from '@flashcore/shared/testing';
import { DirectoryInUse } from '../store/directory-lock.ts';
import { collect, finished, firstEvent, kernel, startTestRunner, temporaryFolder } from '../testing/test-runner.ts';
import { backUp, restore } from './backup.ts';

test('a backup made while jobs write is complete; a restored runner has the jobs of that moment', async () => {
  using folder = temporaryFolder();
  const dataDirectory = join(folder.path, 'data');
  const file = join(folder.path, 'backup.db');
  let before: Awaited<ReturnType<typeof collect>>;
  {
    await using fixture = await startTestRunner({ dataDirectory });
    before = await collect(fixture.client.start('build', kernel('flood_2000')));
    const { job: flood } = await firstEvent(fixture.client.start('build', kernel('flood_20000')));
    const backup = backUp(dataDirectory, file);
    expect(backup).toMatchObject({ jobs: 2 });
    const stateNow = async () => (await fixture.client.getJob({ name: flood })).job!;
    expect((await stateNow()).state).toBe(JobState.RUNNING);
    await until(async () => (await stateNow()).outcome === Outcome.PASSED);
    expect((await stateNow()).lastSequence).toBeGreaterThan(20_000n);
    expect(() => restore(dataDirectory, file)).toThrow(DirectoryInUse);
    await collect(fixture.client.start('build', kernel('ok')));
  }
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(() => backUp(dataDirectory, file)).toThrow('exists');
  const { jobs, before: kept } = restore(dataDirectory, file);
  expect(jobs).toBe(2);
  expect(statSync(kept!).size).toBeGreaterThan(0);

  await using fixture = await startTestRunner({ dataDirectory });
  const listed = (await fixture.client.listJobs()).jobs;
  expect(listed).toHaveLength(2);
  expect(await collect(fixture.client.watch(listed[1]!.name))).toEqual(before);
  // The job that was running during the backup ends as after a crash.
  expect(finished(await collect(fixture.client.watch(listed[0]!.name))).summary).toBe(
    'The runner ended while the job was running',
  );
  await firstEvent(fixture.client.start('build', kernel('ok')));
});

test('a file that is not a backup, or is damaged, is refused before anything is changed', () => {
  using folder = temporaryFolder();
  const at = (name: string) => join(folder.path, name);
  expect(() => backUp(folder.path, at('b.db'))).toThrow('has no flashcore.db');
  writeFileSync(at('text'), 'no database at all, '.repeat(100));
  expect(() => restore(folder.path, at('text'))).toThrow('is not a backup');
  expect(() => restore(folder.path, at('nothing'))).toThrow('is not there');
  expect(readdirSync(folder.path)).toEqual(['text']);
  writeFileSync(at('flashcore.db'), '');
  expect(() => backUp(folder.path, at('nowhere/b.db'))).toThrow(
    `${at('nowhere')} is not a folder: give a file in one that exists`,
  );
});

test('a truncated or corrupted backup is refused', async () => {
  using folder = temporaryFolder();
  const file = join(folder.path, 'b.db');
  {
    await using fixture = await startTestRunner();
    await collect(fixture.client.start('build', kernel('flood_3000')));
    backUp(fixture.dataDirectory, file);
  }
  const cut = join(folder.path, 'cut.db');
  copyFileSync(file, cut);
  truncateSync(cut, statSync(file).size - 8192);
  const flipped = join(folder.path, 'flipped.db');
  const bytes = readFileSync(file);
  writeFileSync(flipped, bytes.fill(0xff, 12_288, 20_480));
  for (const damaged of [cut, flipped])
    expect(() => restore(folder.path, damaged), damaged).toThrow(/is damaged|is not a backup/);
});
