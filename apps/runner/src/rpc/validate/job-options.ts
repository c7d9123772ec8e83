import type { JobOptions } from '@flashcore/shared/contract';
import { checkLabels } from './asked-labels.ts';
import type { Violations } from './violations.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const DEFAULT_SECONDS = 3600;
/** A week, because no run is unbounded, and a timer of more than 24.8 days would fire at once. */
const MAX_SECONDS = 7 * 24 * 3600;

/** JobOptions with every default filled in. */
export interface JobLimits {
  /** Lower case; empty if there is none. */
  requestId: string;
  maxQueueSeconds: number;
  maxRunSeconds: number;
  labels: Record<string, string>;
}

/** A UUID in lower case, or empty. */
export function checkRequestId(field: string, requestId: string, violations: Violations): string {
  if (requestId !== '' && !UUID.test(requestId))
    violations.add(field, 'must be a UUID such as 123e4567-e89b-42d3-a456-426614174000, or empty');
  return requestId.toLowerCase();
}

export function checkJobOptions(options: JobOptions | undefined, violations: Violations): JobLimits {
  const { requestId = '', deviceId = '', maxQueueSeconds = 0, maxRunSeconds = 0, labels = {} } = options ?? {};
  checkLabels('options.labels', labels, violations);
  const id = checkRequestId('options.request_id', requestId, violations);
  violations.text('options.device_id', deviceId);
  violations.range('options.max_queue_seconds', maxQueueSeconds, { least: 0, most: MAX_SECONDS, unit: 's' });
  violations.range('options.max_run_seconds', maxRunSeconds, { least: 0, most: MAX_SECONDS, unit: 's' });
  return {
    requestId: id,
    maxQueueSeconds: maxQueueSeconds || DEFAULT_SECONDS,
    maxRunSeconds: maxRunSeconds || DEFAULT_SECONDS,
    labels,
  };
}
