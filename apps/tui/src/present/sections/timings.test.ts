import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { BenchmarkResultSchema, TimingMode } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { describe, histogram } from '@flashcore/shared/statistics';
import { expect, test } from 'vitest';
import { plainLines } from '../plain/plain-painter.ts';
import { timingBlocks } from './timings.ts';

const sectionOf = (result: MessageInitShape<typeof BenchmarkResultSchema>): string[] =>
  plainLines(timingBlocks([create(BenchmarkResultSchema, result)]), PLAIN);
import { PLAIN } from '../../testing/result-fixtures.ts';

const section = (...samples: number[]) =>
  sectionOf({ latency: describe(samples), histogram: histogram(samples) }).join('\n');

test('with fewer than five samples the range is shown, without percentiles or an interval', () => {
  expect(section(8, 10, 9)).toContain(
    '  8.000 us to 10.00 us, median 9.000 us; percentiles and intervals need 5\n  samples or more\n  samples     3\n',
  );
  expect(section(8)).toContain('  8.000 us, one sample; percentiles');
  expect(section(8, 9, 10, 11, 12)).toMatch(/p50 +95 % interval[^]*p99/);
});

test('a result above the roofline is explained: the roofline assumes device memory, but the tensors are in L2', () => {
  const throughput = (rooflinePercent: number, rooflineUnits = 'tensor cores'): string =>
    sectionOf({
      latency: describe([13]),
      rooflinePercent,
      rooflineUnits,
      leastUs: 8.87,
      leastBasis: '1.07 GFLOP at the tensor peak of 121 TFLOP/s',
    })
      .join(' ')
      .replaceAll(/\s+/g, ' ');
  expect(throughput(68)).toMatch(/throughput 68 % of the tensor-core roofline SDPA/);
  expect(throughput(68, 'fp32 units')).toMatch(/throughput 68 % of the fp32 roofline SDPA/);
  expect(throughput(107.5)).toContain(
    '% of the tensor-core roofline, which counts every tensor from device memory once; the least possible here is 8.870 us: 1.07 GFLOP at the tensor peak of 121 TFLOP/s',
  );
});

test('slow samples that were kept are reported next to the clock, with the reason', () => {
  const clock = (more: { slowedSamples?: number; throttledSamples?: number }): string =>
    sectionOf({
      latency: describe([8, 9, 10, 11, 12, 13, 14, 15, 16, 17]),
      clockSource: 'stamped',
      ...more,
    })
      .join(' ')
      .replaceAll(/\s+/g, ' ');
  expect(
    [clock({}), clock({ slowedSamples: 3, throttledSamples: 2 }), clock({ throttledSamples: 2 })].map(
      (text) => /clock (.*?)( not valid|$)/.exec(text)![1],
    ),
  ).toEqual([
    'stamped',
    'stamped; it fell in 30 % of the samples, the device was throttled in 20 %; they are kept: those of SDPA have no clock to drop them by',
    'stamped; the device was throttled in 20 %; they are kept: those of SDPA have no clock to drop them by',
  ]);
});

test('a rival has its commit, build and largest error, and one without a figure says why', () => {
  const text = sectionOf({
    latency: describe([8, 9, 10, 11, 12]),
    sdpa: [
      {
        name: 'flash_attention_3',
        version: 'flash-attention 0251105a, build 6f1d3c20',
        latency: describe([20]),
        ...{ speedup: 2, speedupLow: 1.9, speedupHigh: 2.1, maxAbsError: 2.5e-4 },
      },
    ],
    missingRivals: [
      { name: 'flashinfer', reason: 'not found: install it' },
      { name: 'sdpa/cudnn', version: 'PyTorch 2.11.0', reason: 'wrong: 1 of 4 elements' },
    ],
  })
    .join(' ')
    .replaceAll(/\s+/g, ' ');
  expect(text).toMatch(
    /flash_attention_3 p50 20\.00 us, .*\(flash-attention 0251105a, build 6f1d3c20; largest error 2\.50?e-4\)/,
  );
  expect(text).toContain('flashinfer not measured: not found: install it');
  expect(text).toContain('sdpa/cudnn not measured: wrong: 1 of 4 elements (PyTorch 2.11.0)');
});

test('emulator timings do not mention a flushed L2, and facts that all measurements share appear once', () => {
  const result = (mode: TimingMode, simulated: boolean, outputCheck: string) =>
    create(BenchmarkResultSchema, { shape: parseShape('1x4x128x64'), mode, simulated, outputCheck, valid: true });
  const headings = (simulated: boolean): string[] =>
    plainLines(timingBlocks([result(TimingMode.COLD, simulated, 'right')]), PLAIN).slice(0, 1);
  expect([headings(false), headings(true)]).toEqual([
    ['Latency 1x4x128x64  cold (L2 flushed, isolated launches)'],
    ['Latency 1x4x128x64  cold (isolated launches)'],
  ]);
  const both = [result(TimingMode.COLD, true, 'right after 9'), result(TimingMode.HOT, true, 'right after 11')];
  expect(plainLines(timingBlocks(both), PLAIN)).toEqual([
    'Latency 1x4x128x64  cold (isolated launches)',
    '  checked    right after 9',
    '',
    'Latency 1x4x128x64  hot (back to back)',
    '  checked    right after 11',
    '',
    'Latency  all 2 measurements',
    '  samples     none',
    '  SDPA        none asked for',
    '  conditions  not recorded',
  ]);
});
