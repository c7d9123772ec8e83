import { create } from '@bufbuild/protobuf';
import { JobResultSchema, JobSchema, KernelSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { initialState, type AppState } from './app-state.ts';
import { isSourceChanged, kernelWithNotes } from './chosen.ts';
import type { JobView } from './job-view.ts';

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

test('outside of view 7 the key for notes is about a shown result that lacked only notes', () => {
  const stateWith = (notesWanted: boolean): AppState => {
    const result = create(JobResultSchema, { acceptability: { possible: false, notesWanted } });
    const view = { name: 'jobs/a', kernelId: 'k', codeDigest: 'mine', result } as JobView;
    return {
      ...initialState({ runner: { label: 'x', embedded: true }, columns: 80, rows: 24, now: 0 }),
      kernels: [kernel('theirs'), kernel('mine', '/k')],
      views: { 'jobs/a': view },
      attached: 'jobs/a',
    };
  };
  expect([true, false].map((wanted) => kernelWithNotes(stateWith(wanted))?.folder)).toEqual(['/k', undefined]);
});
