import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { Verdict, type ProfileResult } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { parseNcuCsv } from './ncu-report.ts';
import { profileResult } from './profile-result.ts';

const recorded = (name: string) => parseNcuCsv(readFileSync(new URL(`recorded/${name}`, import.meta.url), 'utf8'));
const of = (result: ProfileResult, name: string): number | undefined =>
  result.metrics.find((metric) => metric.name === name)?.value;
const l4 = (): ProfileResult =>
  profileResult({
    arch: 'sm_89',
    deviceName: 'NVIDIA L4',
    shape: parseShape('2x8x512x64'),
    accumulate: 'fp32',
    launches: recorded('sm_89.invented-values.details.csv'),
  });

test('metrics of sm_89', () => {
  const result = l4();
  expect(result.verdict).toBe(Verdict.PASS);
  expect(of(result, 'gpu_time_us')).toBeCloseTo(318.208);
  expect(of(result, 'tensor_pipe_percent')).toBe(6.25);
  expect(of(result, 'smem_bank_conflict_percent')).toBe(25); // (900,000 + 100,000) of 4,000,000 wavefronts
  expect(of(result, 'smem_wavefronts_per_request')).toBe(4);
  expect(of(result, 'resident_ctas_per_sm')).toBe(3);
  expect(of(result, 'achieved_tflops')).toBeCloseTo((4 * 2 * 8 * 512 * 512 * 64) / 318.208e-6 / 1e12, 6);
});

test('a counter that was not read leaves its metric out, so that its gate is not measured', () => {
  expect(of(l4(), 'l2_hit_percent')).toBeUndefined();
  expect(of(l4(), 'achieved_occupancy_percent')).toBeUndefined();
});

test('stalls come largest first', () => {
  expect(l4().stalls.map(({ name, value }) => [name, value])).toEqual([
    ['barrier', 2.5],
    ['long_scoreboard', 1.5],
    ['selected', 1],
  ]);
});

test('the bottleneck and the advice carry their figures', () => {
  const result = l4();
  expect(result.bottleneck).toBe(
    'latency: tensor cores 6.3 %, device memory 4.5 %, issue 41.0 %; the most frequent stall is barrier',
  );
  expect(result.advice.map(({ evidence }) => evidence)).toEqual([
    '96 registers a thread (bound 64), 3 CTAs a multiprocessor (wanted 4), bound by shared memory',
    'bank conflicts are 25.0 % of the shared-memory wavefronts, 4.0 wavefronts a request',
    'tensor cores 6.3 %, device memory 4.5 %, issue 41.0 %',
    'stall barrier: 2.50 of 5.00 warp cycles an issued instruction (50.0 %)',
    'stall long_scoreboard: 1.50 of 5.00 warp cycles an issued instruction (30.0 %)',
  ]);
});

test('a plan of two launches: the time of both, the figures of the longest', () => {
  const result = profileResult({
    arch: 'sm_90',
    deviceName: 'NVIDIA H200',
    shape: parseShape('2x8x512x64'),
    accumulate: 'fp32',
    launches: recorded('sm_90.two-launches.csv'),
  });
  expect(of(result, 'gpu_time_us')).toBeCloseTo(60.736);
  expect(result.metrics[0]!.source).toBe('ncu gpu__time_duration.sum, sum of 2 launches');
});

test('a device without a data sheet has no roofline', () => {
  const result = profileResult({
    arch: 'sm_90',
    deviceName: 'Some GPU',
    shape: parseShape('2x8x512x64'),
    accumulate: '',
    launches: recorded('sm_90.raw.base.csv'),
  });
  expect(of(result, 'roofline_percent')).toBeUndefined();
});
