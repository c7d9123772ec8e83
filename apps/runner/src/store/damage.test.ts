import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { collect, kernel, startTestRunner, temporaryFolder, type TestRunner } from '../testing/test-runner.ts';
import { openDatabase } from './database.ts';

/** Runs a job and returns its name. */
async function runJob({ client }: TestRunner, kernelId: string): Promise<string> {
  return (await collect(client.start('build', kernel(kernelId))))[0]!.job;
}

test.each([
  ['a flipped bit', "UPDATE events SET event = CAST(event || x'00' AS BLOB) WHERE job_id = 1 AND sequence = 5"],
  ['a missing event', 'DELETE FROM events WHERE job_id = 1 AND sequence = 5'],
  ['a missing end', 'DELETE FROM events WHERE job_id = 1 AND sequence > 8'],
  [
    "another job's event",
    'UPDATE events SET event = (SELECT event FROM events WHERE job_id = 2 AND sequence = 5) WHERE job_id = 1 AND sequence = 5',
  ],
])('a history with %s ends with DATA_DAMAGED, never with OK; other jobs can be read', async (_, damage) => {
  using folder = temporaryFolder();
  const dataDirectory = join(folder.path, 'data');
  const names: string[] = [];
  {
    await using before = await startTestRunner({ dataDirectory });
    names.push(await runJob(before, 'flood_10'), await runJob(before, 'flood_10'));
  }
  const database = new DatabaseSync(join(dataDirectory, 'flashcore.db'));
  database.exec(damage);
  database.close();
  await using fixture = await startTestRunner({ dataDirectory });
  await expect(collect(fixture.client.watch(names[0]!))).rejects.toMatchObject({ reason: 'DATA_DAMAGED' });
  expect((await collect(fixture.client.watch(names[1]!))).at(-1)?.payload.case).toBe('finished');
});

test('a file that is not a database is reported in one line', () => {
  using folder = temporaryFolder();
  const path = join(folder.path, 'flashcore.db');
  writeFileSync(path, 'garbage '.repeat(1_000));
  expect(() => openDatabase(path)).toThrow(
    "The runner can't open its database, the database's file is damaged: restore it from a backup (flashcore-runner restore)",
  );
});

test('damaged pages are found at the start', async () => {
  using folder = temporaryFolder();
  const dataDirectory = join(folder.path, 'data');
  {
    await using before = await startTestRunner({ dataDirectory });
    await runJob(before, 'flood_2000');
  }
  const path = join(dataDirectory, 'flashcore.db');
  const bytes = readFileSync(path);
  // The headers of some pages of the events table.
  for (let page = 14; page < 24; ++page) bytes.fill(0xff, page * 4096, page * 4096 + 64);
  writeFileSync(path, bytes);
  await expect(startTestRunner({ dataDirectory })).rejects.toMatchObject({ reason: 'DATA_DAMAGED' });
});

test('an empty database next to files of jobs is refused', async () => {
  using folder = temporaryFolder();
  const dataDirectory = join(folder.path, 'data');
  mkdirSync(join(dataDirectory, 'artifacts/ab'), { recursive: true });
  await expect(startTestRunner({ dataDirectory })).rejects.toMatchObject({
    reason: 'DATA_DAMAGED',
    message: expect.stringContaining('the database that knows them is empty or gone') as string,
  });
});
