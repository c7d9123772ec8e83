import { readFileSync } from 'node:fs';
import { measuredFolder } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { Verdict, type ProfileResult } from '@flashcore/shared/contract';
import { attentionCase, parseShape } from '@flashcore/shared/kernels';
import { evaluateRule, metricRules } from './counters.ts';
import { parseNcuCsv } from './ncu-report.ts';
import { profileResult } from './profile-result.ts';

const recorded = (name: string) => parseNcuCsv(readFileSync(new URL(`recorded/${name}`, import.meta.url), 'utf8'));
const of = (result: ProfileResult, name: string): number | undefined =>
  result.metrics.find((metric) => metric.name === name)?.value;
/** flashcore_v10 at 2x8x512x64 on an H200, recorded with all of our counters. */
const SAVED = `${measuredFolder('h200-2026-11-21')}/profile.flashcore_v10.saved.csv`;
const h200 = (launches = parseNcuCsv(readFileSync(SAVED, 'utf8'))): ProfileResult =>
  profileResult({
    arch: 'sm_90',
    deviceName: 'NVIDIA H200',
    shape: parseShape('2x8x512x64'),
    computed: attentionCase(parseShape('2x8x512x64'), 'fp16'),
    accumulate: 'fp32',
    launches,
  });

test('profileResult() computes the metrics of a recorded launch', () => {
  const result = h200();
  expect(result.verdict).toBe(Verdict.PASS);
  expect(of(result, 'gpu_time_us')).toBeCloseTo(8.736);
  expect(of(result, 'tensor_pipe_percent')).toBe(30.49);
  expect(of(result, 'smem_bank_conflict_percent')).toBe(0);
  // (304,128 + 26,624) wavefronts of (14,848 + 13,312) requests
  expect(of(result, 'smem_wavefronts_per_request')).toBeCloseTo(11.7455, 4);
  expect(of(result, 'resident_ctas_per_sm')).toBe(2);
  expect(of(result, 'achieved_tflops')).toBeCloseTo((4 * 2 * 8 * 512 * 512 * 64) / 8.736e-6 / 1e12, 6);
});

test('bank conflicts are a share of the wavefronts, loads and stores together', () => {
  const rule = metricRules('sm_90').find(({ name }) => name === 'smem_bank_conflict_percent')!;
  const values = [900, 100, 3_000, 1_000];
  expect(evaluateRule(rule, new Map(rule.counters.map((counter, index) => [counter, values[index]!])))).toBe(25);
});

test('a counter that was not read leaves its metric out, so its gate is not measured', () => {
  const result = h200(recorded('sm_90.raw.base.csv'));
  expect(of(result, 'l2_hit_percent')).toBeUndefined();
  expect(of(result, 'achieved_occupancy_percent')).toBeUndefined();
});

test('a hit rate above 100 % is left out as invalid, and the profile says why', () => {
  const [launch] = parseNcuCsv(readFileSync(SAVED, 'utf8'));
  const at = (percent: number) =>
    h200([{ ...launch!, counters: new Map(launch!.counters).set('lts__t_sector_hit_rate.pct', percent) }]);
  expect([of(at(99.5), 'l2_hit_percent'), at(99.5).reason]).toEqual([99.5, undefined]);
  expect([of(at(133.54), 'l2_hit_percent'), at(133.54).reason]).toEqual([
    undefined,
    'l2_hit_percent left out: lts__t_sector_hit_rate.pct is 133.54 %, above 100 %, because its passes do not fit together',
  ]);
});

test("a kernel whose tensor pipe was never active is measured against the fp32 units' peak", () => {
  const [launch] = parseNcuCsv(readFileSync(SAVED, 'utf8'));
  const [tensor] = metricRules('sm_90').find(({ name }) => name === 'tensor_pipe_percent')!.counters;
  const scalar = h200([{ ...launch!, counters: new Map(launch!.counters).set(tensor!, 0) }]);
  const share = (result: ProfileResult) => result.metrics.find(({ name }) => name === 'roofline_percent');
  expect(share(scalar)!.value / share(h200())!.value).toBeCloseTo(989 / 67);
  expect([share(scalar)!.source, share(h200())!.source]).toEqual([
    expect.stringContaining('fp32 units'),
    expect.stringContaining('tensor cores'),
  ]);
});

test('if the time of one of two launches was not read, total time and rates are absent', () => {
  const [first, second] = recorded('sm_90.two-launches.csv');
  const untimed = new Map(second!.counters);
  untimed.delete('gpu__time_duration.sum');
  const result = h200([first!, { ...second!, counters: untimed }]);
  const rates = ['gpu_time_us', 'achieved_tflops', 'roofline_percent'].map((name) => of(result, name));
  expect(rates).toEqual([undefined, undefined, undefined]);
  expect(of(h200([first!, second!]), 'achieved_tflops')).toBeGreaterThan(0);
});

test('stalls are sorted, largest first', () => {
  expect(
    h200()
      .stalls.slice(0, 4)
      .map(({ name, value }) => [name, value]),
  ).toEqual([
    ['wait', 1.31],
    ['selected', 1],
    ['long_scoreboard', 0.39],
    ['short_scoreboard', 0.16],
  ]);
});

test('the bottleneck and the advice contain their figures', () => {
  const result = h200();
  expect(result.bottleneck).toBe(
    'latency: no unit is busy (tensor cores 30.5 %, device memory 0.5 %, busiest pipe 30.5 %); warps stall most on wait',
  );
  expect(result.advice.map(({ evidence }) => evidence)).toEqual([
    '232 registers a thread (bound 64), 2 CTAs/SM (wanted 4), bound by registers',
    'tensor cores 30.5 %, device memory 0.5 %, achieved occupancy 6.5 %, busiest pipe 30.5 %',
    'stall wait: 1.31 of 3.28 warp cycles an issued instruction (39.9 %)',
  ]);
});

test('a profile of two launches has their total time and the figures of the longer one', () => {
  const result = profileResult({
    arch: 'sm_90',
    deviceName: 'NVIDIA H200',
    shape: parseShape('2x8x512x64'),
    computed: attentionCase(parseShape('2x8x512x64'), 'fp16'),
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
    computed: attentionCase(parseShape('2x8x512x64'), 'fp16'),
    accumulate: undefined,
    launches: recorded('sm_90.raw.base.csv'),
  });
  expect(of(result, 'roofline_percent')).toBeUndefined();
});
