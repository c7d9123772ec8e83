import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { JobSchema, type Job } from '@flashcore/shared/contract';
import type { JobRow } from '../store/job-table.ts';
import { readLabels } from '../store/labels.ts';

/** A stored job as clients see it. */
export function jobMessage(row: JobRow, queuePosition = 0): Job {
  return create(JobSchema, {
    name: row.name,
    kind: row.kind,
    state: row.state,
    outcome: row.outcome,
    summary: row.summary,
    label: row.label,
    kernelId: row.kernel_id,
    deviceId: row.device_id,
    ...(row.request_id !== null && { requestId: row.request_id }),
    lastSequence: BigInt(row.last_sequence),
    createTime: timestampFromMs(row.create_ms),
    ...(row.start_ms !== null && { startTime: timestampFromMs(row.start_ms) }),
    ...(row.end_ms !== null && { endTime: timestampFromMs(row.end_ms) }),
    queuePosition,
    ...(row.owner !== '' && { owner: row.owner }),
    labels: readLabels(row.labels),
  });
}
