import { create } from '@bufbuild/protobuf';
import { JobFinishedSchema, JobResultSchema, JobState, Outcome } from '@flashcore/shared';
import type { Database } from '../store/database.ts';
import type { EventLog } from '../store/event-log.ts';
import type { JobTable } from '../store/job-table.ts';
import { EventFeed } from './event-feed.ts';
import { JobRecorder } from './job-recorder.ts';

/** Ends the jobs that an earlier runner left queued or running when it was killed, and says how many. Before any client is served. */
export function recoverJobs({ database, table, log }: { database: Database; table: JobTable; log: EventLog }): number {
  const rows = table.unfinished();
  for (const row of rows) {
    const summary = `The runner ended while the job was ${row.state === JobState.QUEUED ? 'queued' : 'running'}`;
    const recorder = new JobRecorder({
      database, log, feed: new EventFeed(), jobId: row.id, jobName: row.name, lastSequence: row.last_sequence,
      onFailure: (error) => { throw error; },
    });
    const finished = create(JobFinishedSchema, { outcome: Outcome.INTERRUPTED, summary, result: create(JobResultSchema) });
    recorder.record({ case: 'finished', value: finished }, () => table.markEnded(row.id, { outcome: Outcome.INTERRUPTED, summary, endMs: Date.now() }));
  }
  return rows.length;
}
