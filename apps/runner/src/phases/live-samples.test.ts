import { create } from '@bufbuild/protobuf';
import { LatencyStatisticsSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { expectedSamples } from './live-samples.ts';

const PROTOCOL = { minSamples: 100, maxSamples: 2_000, maxSeconds: 10, targetRelativeHalfWidth: 0.005 };
const statistics = (samples: number, halfWidth: number) =>
  create(LatencyStatisticsSchema, {
    samples,
    p50Us: 10,
    p50LowUs: 10 - 10 * halfWidth,
    p50HighUs: 10 + 10 * halfWidth,
  });

test.each([
  ['an interval twice too wide needs four times as many', 200, 0.01, 100, 800],
  ['a narrow interval still takes the least number', 40, 0.001, 100, 100],
  ['time runs out first', 20, 0.05, 4_000, 50],
  ['never more than the most', 500, 0.05, 10, 2_000],
  ['never less than there are', 120, 0.001, 10, 120],
])('%s', (_, samples, halfWidth, elapsedMs, expected) => {
  expect(expectedSamples(statistics(samples, halfWidth), elapsedMs, PROTOCOL)).toBe(expected);
});
