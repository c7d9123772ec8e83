import { create } from '@bufbuild/protobuf';
import { BenchmarkResultSchema } from '@flashcore/shared/contract';
import { describe, histogram } from '@flashcore/shared/statistics';
import { expect, test } from 'vitest';
import { benchmarkSection } from './benchmark-section.ts';
import { PLAIN } from './fixtures.ts';

const section = (...samples: number[]) =>
  benchmarkSection(
    create(BenchmarkResultSchema, { latency: describe(samples), histogram: histogram(samples) }),
    PLAIN,
  ).join('\n');

test('fewer than five samples show their range, and neither percentiles nor an interval', () => {
  expect(section(8, 10, 9)).toContain(
    '  8.000 to 10.00 us, median 9.000 us; percentiles and intervals need 5 samples\n  or more\n  samples    3\n',
  );
  expect(section(8)).toContain('  8.000 us, one sample; percentiles');
  expect(section(8, 9, 10, 11, 12)).toMatch(/p50 +p90 +p99[^]*at 95 %/);
});

test('more than the roofline is explained: it has tensors come from device memory that L2 holds', () => {
  const throughput = (rooflinePercent: number): string =>
    benchmarkSection(
      create(BenchmarkResultSchema, {
        latency: describe([13]),
        rooflinePercent,
        leastUs: 8.87,
        leastBasis: '1.07 GFLOP at the tensor peak of 121 TFLOP/s',
      }),
      PLAIN,
    )
      .join(' ')
      .replaceAll(/\s+/g, ' ');
  expect(throughput(68)).toMatch(/throughput 68(\.0)? % of the roofline sdpa/);
  expect(throughput(107.5)).toContain(
    '% of the roofline, which counts every tensor from device memory once; the least possible here is 8.870 us: 1.07 GFLOP at the tensor peak of 121 TFLOP/s',
  );
});

test('slow samples that were kept are told beside the clock, and why they were', () => {
  const clock = (more: { slowedSamples?: number; throttledSamples?: number }): string =>
    benchmarkSection(
      create(BenchmarkResultSchema, {
        latency: describe([8, 9, 10, 11, 12, 13, 14, 15, 16, 17]),
        clockSource: 'stamped',
        ...more,
      }),
      PLAIN,
    )
      .join(' ')
      .replaceAll(/\s+/g, ' ');
  expect(
    [clock({}), clock({ slowedSamples: 3, throttledSamples: 2 }), clock({ throttledSamples: 2 })].map(
      (text) => /clock (.*?)( not valid|$)/.exec(text)![1],
    ),
  ).toEqual([
    'stamped',
    'stamped; it fell in 30 % of the samples, the device was throttled in 20 %; they are kept: those of the sdpa have no clock to drop them by',
    'stamped; the device was throttled in 20 %; they are kept: those of the sdpa have no clock to drop them by',
  ]);
});
