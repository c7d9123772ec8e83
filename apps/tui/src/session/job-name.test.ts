import { create } from '@bufbuild/protobuf';
import type { RunnerClient } from '@flashcore/shared/client';
import { JobSchema, ListJobsResponseSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { resolveJobName } from './job-name.ts';

const JOBS = [
  create(JobSchema, { name: 'jobs/3f2a9c1e-0000-4000-8000-000000000001', kernelId: 'mine' }),
  create(JobSchema, { name: 'jobs/11111111-0000-4000-8000-000000000002', kernelId: 'mine' }),
];
const client = {
  listJobs: ({ kernelId = '' }: { kernelId?: string }) =>
    Promise.resolve(
      create(ListJobsResponseSchema, { jobs: JOBS.filter((job) => kernelId === '' || job.kernelId === kernelId) }),
    ),
} as unknown as RunnerClient;

test('a job is named by its first digits, and for a kernel the message names its newest job', async () => {
  expect(await resolveJobName(client, '1111')).toBe(JOBS[1]!.name);
  const wanted = "must be a job's name or its first digits";
  await expect(resolveJobName(client, 'mine')).rejects.toThrow(
    `mine: ${wanted}, got a kernel: its newest job is 3f2a9c1e`,
  );
  await expect(resolveJobName(client, 'nosuch')).rejects.toThrow(new RegExp(`^nosuch: ${wanted}$`));
  await expect(resolveJobName(client, 'jobs/none')).rejects.toThrow(new RegExp(`^jobs/none: ${wanted}$`));
});
