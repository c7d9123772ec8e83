import { create, fromBinary } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import {
  JobState,
  Outcome,
  JobEventSchema,
  JobFinishedSchema,
  JobResultSchema,
  type Device,
} from '@flashcore/shared/contract';
import type { Database } from '../store/database.ts';
import type { EventLog } from '../store/event-log.ts';
import type { JobRow, JobTable } from '../store/job-table.ts';
import { EventFeed } from './event-streams.ts';
import type { JobOutcome } from './job-context.ts';
import { JobRecorder } from './job-recorder.ts';

interface RecoveryOptions {
  database: Database;
  table: JobTable;
  log: EventLog;
  /** Stores a job's outcome, as for any other job; part of a transaction. */
  markEnded: (row: JobRow, end: JobOutcome, endMs: number) => void;
  /** Resumes a job; returns whether it did. */
  takeUp: (row: JobRow) => boolean;
}

/**
 * Ends the jobs that a killed runner left queued or running and that this runner can't resume; returns their number.
 * Runs before any client is served.
 */
export function recoverJobs({ database, table, log, markEnded, takeUp }: RecoveryOptions): number {
  const rows = table.unfinished().filter((row) => !takeUp(row));
  for (const row of rows) {
    const summary = `The runner ended while the job was ${row.state === JobState.QUEUED ? 'queued' : 'running'}`;
    const device = deviceOf(log, row);
    const end = {
      outcome: Outcome.INTERRUPTED,
      summary,
      result: create(JobResultSchema, device && { provenance: { device } }),
    };
    const endMs = row.state === JobState.RUNNING ? lastHeardMs(log, row) : Date.now();
    const recorder = new JobRecorder({
      database,
      log,
      feed: new EventFeed(),
      jobId: row.id,
      jobName: row.name,
      lastSequence: row.last_sequence,
      onFailure: (error) => {
        throw error;
      },
    });
    recorder.record({ case: 'finished', value: create(JobFinishedSchema, end) }, () => markEnded(row, end, endMs));
  }
  return rows.length;
}

/** Time of a job's last event. While no runner was up the job had no device, so its owner is not charged. */
function lastHeardMs(log: EventLog, { id, start_ms: started, last_sequence: last }: JobRow): number {
  const stored = log.read(id, last);
  const { time } = stored ? fromBinary(JobEventSchema, stored.event) : {};
  // The `started` event was created a moment before the start was recorded.
  return time ? Math.max(timestampMs(time), started ?? 0) : Date.now();
}

/** The device that a job ran on, from its second event; undefined if the job was still waiting. */
function deviceOf(log: EventLog, { id, last_sequence: last }: JobRow): Device | undefined {
  const started = last >= 2 ? log.read(id, 2) : undefined;
  const payload = started && fromBinary(JobEventSchema, started.event).payload;
  return payload?.case === 'started' ? payload.value.device : undefined;
}
