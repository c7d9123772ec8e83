import { create } from '@bufbuild/protobuf';
import { JobResultSchema, Outcome } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { summaryOf } from './summary.ts';

test('the summary of a build has the largest resources of its entries, not those of the first', () => {
  const entry = (registersPerThread: number, staticSmemBytes: number) => ({
    ...{ entry: 'k', arch: 'sm_90', registersPerThread, staticSmemBytes },
  });
  const text = (...entries: ReturnType<typeof entry>[]): string =>
    summaryOf(
      Outcome.PASSED,
      create(JobResultSchema, { variants: [{ build: { succeeded: true, seconds: 24.8, entries } }] }),
    );
  expect([text(entry(136, 69_632)), text(entry(136, 69_632), entry(168, 0), entry(24, 156_672))]).toEqual([
    'built in 24.8 s: 136 registers, 69,632 B shared memory on sm_90',
    'built in 24.8 s: 168 registers, 156,672 B shared memory, the most of 3 entries, on sm_90',
  ]);
});
