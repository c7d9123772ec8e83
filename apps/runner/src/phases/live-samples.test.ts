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
  ['an interval twice as wide as wanted needs four times as many samples', 200, 0.01, 100, 800],
  ['a narrow interval needs only the minimum of samples', 40, 0.001, 100, 100],
  ['the time limit comes before the interval is narrow', 20, 0.05, 4_000, 50],
  ['the number expected is at most the maximum', 500, 0.05, 10, 2_000],
  ['the number expected is at least the number taken so far', 120, 0.001, 10, 120],
])('%s', (_, samples, halfWidth, elapsedMs, expected) => {
  expect(expectedSamples(statistics(samples, halfWidth), elapsedMs, PROTOCOL)).toBe(expected);
});
