import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, expect, test } from 'vitest';
import { Outcome } from '@flashcore/shared/contract';
import { openDatabase, type Database } from './database.ts';
import { EventLog } from './event-log.ts';
import { JobTable } from './job-table.ts';
import { NEW_JOB } from '../testing/job-row.ts';

const folder = mkdtempSync(join(tmpdir(), 'fc-db-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const ended = { outcome: Outcome.PASSED, summary: '', endMs: 1 };

function open(): { database: Database; jobs: JobTable; log: EventLog } {
  const database = openDatabase(':memory:');
  return { database, jobs: new JobTable(database), log: new EventLog(database) };
}

test('a job can end only once', () => {
  const { jobs } = open();
  const id = jobs.insert(NEW_JOB);
  jobs.markEnded(id, ended);
  expect(() => jobs.markEnded(id, { ...ended, outcome: Outcome.FAILED })).toThrow('the job has ended');
  expect(jobs.byName('jobs/1')).toMatchObject({ outcome: Outcome.PASSED });
});

test('a transaction that throws is undone, even if it was part of another', () => {
  const { database, jobs, log } = open();
  const id = jobs.insert(NEW_JOB);
  expect(() =>
    database.transaction(() => {
      log.append(id, [{ sequence: 1, event: Buffer.from('a') }]);
      jobs.markEnded(id, ended);
      throw new Error('no');
    }),
  ).toThrow('no');
  expect([log.readAfter(id, 0), jobs.byName('jobs/1')?.last_sequence, jobs.hasEnded(id)]).toEqual([[], 0, false]);
});

test('a full disk is DISK_FULL, leaves nothing half-written, and the database works again once there is space', () => {
  const { database, jobs, log } = open();
  const id = jobs.insert(NEW_JOB);
  const pages = Number(Object.values(database.prepare('PRAGMA page_count').get()!)[0]);
  database.prepare(`PRAGMA max_page_count = ${pages + 2}`).get();
  const events = [
    { sequence: 1, event: Buffer.alloc(100) },
    { sequence: 2, event: Buffer.alloc(1_000_000) },
  ];
  expect(() => log.append(id, events)).toThrow(expect.objectContaining({ reason: 'DISK_FULL' }) as Error);
  expect(log.readAfter(id, 0)).toEqual([]);
  database.prepare('PRAGMA max_page_count = 1000000').get();
  log.append(id, events);
  expect(log.readAfter(id, 0).map(({ sequence }) => sequence)).toEqual([1, 2]);
});

test('a database of a newer runner is refused', () => {
  const path = join(folder, 'new.db');
  openDatabase(path).close();
  new DatabaseSync(path).exec('PRAGMA user_version = 99');
  expect(() => openDatabase(path)).toThrow('schema version 99');
});

test('readAfter() returns events in batches of limited number and size', () => {
  const { jobs, log } = open();
  const id = jobs.insert(NEW_JOB);
  log.append(
    id,
    Array.from({ length: 300 }, (_, index) => ({
      sequence: index + 1,
      event: Buffer.alloc(index < 280 ? 10 : 100_000),
    })),
  );
  const sizes: number[] = [];
  for (let after = 0; ;) {
    const batch = log.readAfter(id, after);
    if (batch.length === 0) break;
    sizes.push(batch.length);
    after = batch.at(-1)!.sequence;
  }
  expect(sizes).toEqual([256, 27, 3, 3, 3, 3, 3, 2]);
});
