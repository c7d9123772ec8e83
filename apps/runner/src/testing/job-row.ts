import { JobKind } from '@flashcore/shared/contract';

/** A new job as the job table takes it. */
export const NEW_JOB = {
  name: 'jobs/1',
  kind: JobKind.BUILD,
  label: '',
  kernel_id: 'k',
  device_id: 'd',
  request_id: null,
  request_digest: null,
  create_ms: 0,
  owner: 'ada',
  labels: '{}',
  code_digest: '',
};
