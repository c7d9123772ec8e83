import { create } from '@bufbuild/protobuf';
import { BenchmarkResultSchema, describe, histogram } from '@flashcore/shared';
import { expect, test } from 'vitest';
import { benchmarkSection } from './benchmark-section.ts';
import { PLAIN } from './fixtures.ts';

const section = (...samples: number[]) => benchmarkSection(create(BenchmarkResultSchema, { latency: describe(samples), histogram: histogram(samples) }), PLAIN).join('\n');

test('fewer than five samples show their range, and neither percentiles nor an interval', () => {
  expect(section(8, 10, 9)).toContain('  8.000 to 10.00 us, median 9.000 us; percentiles and intervals need 5 samples\n  or more\n  samples    3\n');
  expect(section(8)).toContain('  8.000 us, one sample; percentiles');
  expect(section(8, 9, 10, 11, 12)).toMatch(/p50 +p90 +p99[^]*at 95 %/);
});
