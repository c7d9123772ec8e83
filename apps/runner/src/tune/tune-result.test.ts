import { create } from '@bufbuild/protobuf';
import { JobResultSchema, TunedVariantSchema, Verdict } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { endOfTune } from './tune-result.ts';

test.each([
  [undefined, '1 variant tried, none timed on a GPU: BLOCK_Q=32 has the fewest registers, 64'],
  [21.25, 'best of 1 variant: BLOCK_Q=32, 21.25 us'],
])('a search names the best variant only if it timed the variants (%s)', (p50Us, summary) => {
  const winner = create(TunedVariantSchema, {
    label: 'BLOCK_Q=32',
    registers: 64,
    ...(p50Us !== undefined && { p50Us }),
  });
  const found = { rows: [winner], winner, complete: true, comparison: undefined, heldOut: undefined };
  expect(endOfTune(found, create(JobResultSchema)).summary).toBe(summary);
});

test.each([
  [8192, 'A=2, A=1 have the fewest registers, 142; A=2 takes the least shared memory'],
  [4096, 'A=2, A=1 have the fewest registers, 142; shared memory does not decide either'],
])('a search without times names every variant with the fewest registers (%i B)', (smemBytes, text) => {
  const row = (label: string, registers: number, smem: number) =>
    create(TunedVariantSchema, { label, registers, smemBytes: smem, verified: Verdict.PASS });
  const winner = row('A=2', 142, 4096);
  const rows = [row('A=1', 142, smemBytes), winner, row('A=0', 150, 0)];
  const found = { rows, winner, complete: true, comparison: undefined, heldOut: undefined };
  expect(endOfTune(found, create(JobResultSchema)).summary).toBe(`3 variants tried, none timed on a GPU: ${text}`);
});
