import {
  existsSync,
  lutimesSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { JobState, SourceFileSchema, type JobEvent } from '@flashcore/shared/contract';
import { sha256Of } from '@flashcore/shared/kernels';
import { until } from '@flashcore/shared/testing';
import { ArtifactStore } from '../store/artifacts.ts';
import { openDatabase, type Database } from '../store/database.ts';
import { SourceStore } from '../store/sources.ts';
import { collect, finished, kernel, startTestRunner, temporaryFolder } from '../testing/test-runner.ts';
import { KEEP_ALL, applyRetention } from './retention.ts';

const DAY_MS = 24 * 3600 * 1000;
const ago = (days: number): Date => new Date(Date.now() - days * DAY_MS);

function put(path: string, bytes: number, days: number): string {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, 'x'.repeat(bytes));
  utimesSync(path, ago(days), ago(days));
  return path;
}

/** A data directory without jobs; each artifact has 100 bytes and a given number of days since its last use. */
function dataWith(folder: string, artifacts: Record<string, number>) {
  const database = openDatabase(join(folder, 'flashcore.db'));
  for (const [name, days] of Object.entries(artifacts))
    put(join(folder, 'artifacts', name.slice(0, 2), name.slice(2)), 100, days);
  const left = () =>
    readdirSync(join(folder, 'artifacts'), { recursive: true })
      .map(String)
      .filter((path) => path.includes('/'))
      .map((path) => path.replace('/', ''))
      .sort();
  return { database, left };
}

test('files expire by age, artifacts also by size; a dry run reports the same and removes nothing', async () => {
  using folder = temporaryFolder();
  const { database, left } = dataWith(folder.path, { aa1: 40, aa2: 20, bb3: 10, bb4: 5, cc5: 0 });
  put(join(folder.path, 'sources/files/ab/c'), 7, 40);
  put(join(folder.path, 'sources/trees/old/kernel.yaml'), 5, 40);
  utimesSync(join(folder.path, 'sources/trees/old'), ago(40), ago(40));
  put(join(folder.path, 'sources/files/incoming/upload'), 7, 40);
  put(join(folder.path, 'builds/entries/old.json'), 3, 40);
  put(join(folder.path, 'builds/entries/new.json'), 3, 1);
  const policy = { ...KEEP_ALL, filesDays: 30, artifactsGib: 250 / 1024 ** 3 };
  const wanted = {
    events: { jobs: 0, count: 0, bytes: 0 },
    artifacts: { count: 3, bytes: 300 },
    sources: { count: 2, bytes: 12 },
    builds: { count: 1, bytes: 3 },
  };
  expect(await applyRetention({ dataDirectory: folder.path, database, policy, dryRun: true })).toEqual(wanted);
  expect(left()).toHaveLength(5);
  expect(await applyRetention({ dataDirectory: folder.path, database, policy, dryRun: false })).toEqual(wanted);
  expect([
    left(),
    readdirSync(join(folder.path, 'sources/trees')),
    readdirSync(join(folder.path, 'builds/entries')),
  ]).toEqual([['bb4', 'cc5'], [], ['new.json']]);
  expect(await applyRetention({ dataDirectory: folder.path, database, policy, dryRun: false })).toMatchObject({
    artifacts: { count: 0 },
    sources: { count: 0 },
  });
  database.close();
});

test('links in a quarantine are removed like other files, but not their targets', async () => {
  using folder = temporaryFolder();
  const { database } = dataWith(folder.path, {});
  const quarantine = join(folder.path, 'artifacts', 'quarantine');
  mkdirSync(quarantine, { recursive: true });
  const key = put(join(folder.path, 'key'), 3, 40);
  for (const [name, target] of [
    ['file', key] as const,
    ['nowhere', 'nowhere/at/all'] as const,
    ['loop', 'loop'] as const,
  ]) {
    symlinkSync(target, join(quarantine, name));
    lutimesSync(join(quarantine, name), ago(40), ago(40));
  }
  const policy = { ...KEEP_ALL, filesDays: 30 };
  const { artifacts } = await applyRetention({ dataDirectory: folder.path, database, policy, dryRun: false });
  expect([artifacts.count, readdirSync(quarantine), readFileSync(key, 'utf8')]).toEqual([3, [], 'xxx']);
  database.close();
});

test('files that an unfinished job may use, or that were used within the hour, stay, whatever the size', async () => {
  using folder = temporaryFolder();
  const { database, left } = dataWith(folder.path, { aa1: 40, aa2: 2, bb3: 0 });
  await applyRetention({
    dataDirectory: folder.path,
    database,
    policy: { ...KEEP_ALL, filesDays: 1, artifactsGib: 0 },
    dryRun: false,
    inUseSinceMs: ago(3).getTime(),
  });
  expect(left()).toEqual(['aa2', 'bb3']);
  await applyRetention({
    dataDirectory: folder.path,
    database,
    policy: { ...KEEP_ALL, artifactsGib: 0 },
    dryRun: false,
  });
  expect(left()).toEqual(['bb3']);
  database.close();
});

test('files that a new job needs are not removed: a recreated artifact, a source uploaded again', async () => {
  using folder = temporaryFolder();
  const database = openDatabase(join(folder.path, 'flashcore.db'));
  const artifacts = new ArtifactStore(join(folder.path, 'artifacts'));
  const sources = new SourceStore(join(folder.path, 'sources'));
  const [kept, unused] = [artifacts.put(Buffer.from('made again')), artifacts.put(Buffer.from('unused'))];
  const uploaded = sources.openUpload();
  uploaded.write(Buffer.from('a source'));
  uploaded.keep(sha256Of('a source'));
  const source = join(folder.path, 'sources/files', sha256Of('a source').slice(0, 2), sha256Of('a source').slice(2));
  for (const path of [artifacts.path(kept), artifacts.path(unused), source]) utimesSync(path, ago(40), ago(40));
  const needIt = (): void => {
    artifacts.put(Buffer.from('made again'));
    expect(sources.findMissing([create(SourceFileSchema, { sha256: sha256Of('a source'), sizeBytes: 8n })])).toEqual(
      [],
    );
  };
  // Trims events after all files were listed and before any is removed.
  const between: Database = {
    ...database,
    prepare: (sql) => {
      needIt();
      return database.prepare(sql);
    },
  };
  const removed = await applyRetention({
    dataDirectory: folder.path,
    database: between,
    policy: { eventsDays: 30, filesDays: 30, artifactsGib: 0 },
    dryRun: false,
  });
  expect(removed).toMatchObject({ artifacts: { count: 1, bytes: 'unused'.length }, sources: { count: 0, bytes: 0 } });
  expect([artifacts.has(kept), artifacts.has(unused), existsSync(source)]).toEqual([true, false, true]);
  database.close();
});

test('an artifact counts as used when a client reads it', async () => {
  await using fixture = await startTestRunner();
  const artifacts = new ArtifactStore(join(fixture.dataDirectory, 'artifacts'));
  const sha256 = artifacts.put(Buffer.from('samples'));
  utimesSync(artifacts.path(sha256), ago(29), ago(29));
  expect(String(await fixture.client.readArtifact(sha256))).toBe('samples');
  expect(Date.now() - statSync(artifacts.path(sha256)).mtimeMs).toBeLessThan(60_000);
});

test('an artifact counts as used when the store reads or recreates it', () => {
  using folder = temporaryFolder();
  const artifacts = new ArtifactStore(folder.path);
  const sha256 = artifacts.put(Buffer.from('a'));
  for (const use of [() => artifacts.get(sha256), () => artifacts.put(Buffer.from('a'))]) {
    utimesSync(artifacts.path(sha256), ago(5), ago(5));
    use();
    expect(Date.now() - statSync(artifacts.path(sha256)).mtimeMs).toBeLessThan(60_000);
  }
});

test('a runner with a policy trims events at its start; watchers learn the first remaining event and may start there', async () => {
  using folder = temporaryFolder();
  const dataDirectory = join(folder.path, 'data');
  let name = '';
  let events: JobEvent[];
  {
    await using fixture = await startTestRunner({ dataDirectory });
    events = await collect(fixture.client.start('build', kernel('flood_500')));
    name = events[0]!.job;
  }
  await using fixture = await startTestRunner({ dataDirectory, retention: { ...KEEP_ALL, eventsDays: 0 } });
  const { client } = fixture;
  const last = Number(events.at(-1)!.sequence);
  const expired = { reason: 'EVENTS_EXPIRED', metadata: { first: String(last) }, cause: { code: 11 } }; // OUT_OF_RANGE
  await until(async () =>
    collect(client.watch(name)).then(
      () => false,
      () => true,
    ),
  );
  for (const afterSequence of [0, 1, last - 2])
    await expect(collect(client.watch(name, { afterSequence })), String(afterSequence)).rejects.toMatchObject(expired);
  expect(await collect(client.watch(name, { afterSequence: last - 1 }))).toEqual(events.slice(-1));
  const told: bigint[] = [];
  expect(await collect(client.watch(name, { onExpired: (first) => told.push(first) }))).toEqual(events.slice(-1));
  expect(told).toEqual([BigInt(last)]);
  expect(await client.getJob({ name })).toMatchObject({
    job: { state: JobState.ENDED, lastSequence: BigInt(last) },
    result: finished(events).result,
  });
});
