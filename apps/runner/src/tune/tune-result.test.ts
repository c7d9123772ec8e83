import { create } from '@bufbuild/protobuf';
import { JobResultSchema, TunedVariantSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { endOfTune } from './tune-result.ts';

test.each([
  [undefined, '1 variant tried, none timed: BLOCK_Q=32 has the fewest registers, 64'],
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
