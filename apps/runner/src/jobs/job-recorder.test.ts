import { setImmediate as nextTurn } from 'node:timers/promises';
import { fromBinary } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { JobEventSchema, type JobEvent } from '@flashcore/shared/contract';
import { openDatabase } from '../store/database.ts';
import { EventLog } from '../store/event-log.ts';
import { JobTable } from '../store/job-table.ts';
import { EventFeed } from './event-streams.ts';
import { JobRecorder } from './job-recorder.ts';
import { NEW_JOB } from '../testing/job-row.ts';

function open() {
  const database = openDatabase(':memory:');
  const log = new EventLog(database);
  const jobId = new JobTable(database).insert(NEW_JOB);
  const recorder = new JobRecorder({
    database,
    log,
    feed: new EventFeed(),
    jobId,
    jobName: 'jobs/1',
    lastSequence: 0,
    onFailure: (error) => expect.unreachable(String(error)),
  });
  /** Number and bytes of the stored lines, and the warnings. */
  const stored = (): Found => {
    const found: Found = { lines: 0, bytes: 0, warnings: [] };
    for (let after = 0; ;) {
      const batch = log.readAfter(jobId, after);
      if (batch.length === 0) return found;
      for (const { sequence, event } of batch) {
        after = sequence;
        add(found, fromBinary(JobEventSchema, event));
      }
    }
  };
  return { recorder, stored };
}

interface Found {
  lines: number;
  bytes: number;
  warnings: string[];
}

function add(found: Found, { payload }: JobEvent): void {
  if (payload.case === 'warning') found.warnings.push(payload.value.message);
  if (payload.case !== 'logLine') return;
  found.lines += 1;
  found.bytes += Buffer.byteLength(payload.value.source) + Buffer.byteLength(payload.value.text);
}

test.each([
  ['short lines', 'kernel', 'x', 300_000, 250_000],
  // The source is limited too, because a pilot chooses it. Each character has three bytes.
  ['long lines', '中'.repeat(10_000), '中'.repeat(10_000), 4_000, Math.floor((64 * 1024 ** 2) / (2 * 4096 * 3))],
])(
  'a flood of %s is kept up to a limit, then a warning says how many were kept',
  async (_, source, text, sent, kept) => {
    const { recorder, stored } = open();
    let heard = 0;
    for (let line = 0; line < sent; line += 1) {
      recorder.recordLogLine(source, text, () => (heard += 1));
      // Dropped lines must not accumulate in memory either.
      if (line % 1_000 === 999) {
        await nextTurn();
        expect(heard).toBe(line + 1);
      }
    }
    const found = stored();
    expect(found.lines).toBe(kept);
    expect(found.bytes).toBeLessThanOrEqual(64 * 1024 ** 2);
    expect(found.warnings).toEqual([`Only the first ${kept} log lines of this job are kept`]);
  },
);
