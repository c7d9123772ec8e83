import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../testing/test-runner.ts';
import { openDatabase } from './database.ts';
import { WalSync } from './wal-sync.ts';

/** A WalSync whose syncs end when the test says so. */
function startSync() {
  const folder = temporaryFolder();
  const path = join(folder.path, 'wal');
  writeFileSync(path, '');
  const ends: PromiseWithResolvers<void>[] = [];
  const log = { changes: 0, ends };
  const sync = new WalSync({
    path,
    changes: () => log.changes,
    syncFile: () => {
      const end = Promise.withResolvers<void>();
      ends.push(end);
      return end.promise;
    },
  });
  const settled = async (): Promise<string> =>
    Promise.race([
      sync.synced().then(() => 'synced'),
      new Promise<string>((resolve) => setImmediate(resolve, 'waits')),
    ]);
  return { ...log, log, sync, settled, [Symbol.dispose]: () => folder[Symbol.dispose]() };
}

test('one sync serves all waiting callers; later commits wait for the next sync', async () => {
  using started = startSync();
  const { sync, log, ends } = started;
  log.changes = 3;
  const first = [sync.synced(), sync.synced(), sync.synced()];
  log.changes = 4;
  const later = sync.synced();
  expect(ends).toHaveLength(1);
  ends[0]!.resolve();
  await Promise.all(first);
  expect(ends).toHaveLength(2);
  expect(await started.settled()).toBe('waits');
  ends[1]!.resolve();
  await later;
  await sync.synced();
  expect(ends).toHaveLength(2);
});

test('a failed sync is an error for the callers that wait for it, and the next call tries again', async () => {
  using started = startSync();
  const { sync, ends, log } = started;
  log.changes = 1;
  const waiting = sync.synced();
  ends[0]!.reject(Object.assign(new Error('no space'), { code: 'ENOSPC' }));
  await expect(waiting).rejects.toMatchObject({ reason: 'DISK_FULL' });
  const again = sync.synced();
  expect(ends).toHaveLength(2);
  ends[1]!.resolve();
  await again;
});

test('a database syncs its own log, and can close during a sync', async () => {
  using folder = temporaryFolder();
  const database = openDatabase(join(folder.path, 'flashcore.db'));
  database
    .prepare('INSERT INTO builds (build_id, tree, variant, create_ms) VALUES (?, ?, ?, 0)')
    .run('b', Buffer.of(), Buffer.of());
  const waiting = database.synced();
  database.close();
  await waiting;
});
