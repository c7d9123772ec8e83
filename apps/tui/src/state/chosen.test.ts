import { create } from '@bufbuild/protobuf';
import { JobSchema, KernelSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { isSourceChanged } from './chosen.ts';

const kernel = (codeDigest: string, folder?: string) => ({
  ...create(KernelSchema, { kernelId: 'k', codeDigest }),
  ...(folder !== undefined && { folder }),
});
const job = (codeDigest: string, labels: Record<string, string> = {}) =>
  create(JobSchema, { kernelId: 'k', codeDigest, labels });

test('a source has changed since a job if no known source of its kernel is what the job ran', () => {
  const kernels = [kernel('mine', '/k'), kernel('theirs')];
  expect(['mine', 'theirs', 'older'].map((digest) => isSourceChanged({ kernels }, job(digest)))).toEqual([
    false,
    false,
    true,
  ]);
});

test('a source does not count as changed without a digest, for an unknown kernel, or for a candidate of a search', () => {
  expect([
    isSourceChanged({ kernels: [kernel('now')] }, job('')),
    isSourceChanged({ kernels: [kernel('')] }, job('older')),
    isSourceChanged({ kernels: [] }, job('older')),
    isSourceChanged({ kernels: [kernel('now')] }, job('older', { search: 's1' })),
  ]).toEqual([false, false, false, false]);
});
