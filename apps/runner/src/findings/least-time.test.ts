import { create } from '@bufbuild/protobuf';
import { FindingKind, DeviceSchema, type Device } from '@flashcore/shared/contract';
import {
  attentionCase,
  DATA_SHEETS,
  findDataSheet,
  installedProblem,
  parseShape,
  problemCase,
} from '@flashcore/shared/kernels';
import { describe } from '@flashcore/shared/statistics';
import { expect, test } from 'vitest';
import type { LatencyReport, TimingModeName } from '../../worker/messages/measuring.ts';
import { invalidReasons, timingFindings } from './timing-findings.ts';
import { isImplausible, leastReadBytes, leastTime, type TimedResult } from './least-time.ts';

const device = (name: string): Device => create(DeviceSchema, { name, l2Bytes: BigInt(findDataSheet(name)!.l2Bytes) });
const L4 = device('NVIDIA L4');
const H200 = device('NVIDIA H200');

function timed(on: Device, shape: string, { mode, us }: { mode: TimingModeName; us: number }): TimedResult {
  const least = leastTime(on, attentionCase(parseShape(shape), 'fp16'), { mode });
  return { latency: describe([us]), ...least };
}

function report(more: Partial<LatencyReport>): LatencyReport {
  return {
    mode: 'hot',
    samplesUs: new Float32Array(100).fill(13),
    clocksMhz: new Float32Array(100),
    clockSource: '',
    slowed: 0,
    throttled: 0,
    stopReason: 'CONVERGED',
    launchesPerSample: 200,
    eventOverheadUs: 1,
    outputCheck: { passed: true, detail: '', launches: 0 },
    conditions: { throttleReasons: [] },
    ...more,
  };
}

// Q, K, V and O of the canonical shape are 4 MiB; reading them from an L4's device memory would take 13.98 us.
test.each([
  [
    'accepts a hot time at two thirds of the tensor peak, with tensors in L2',
    L4,
    '2x8x512x64',
    { mode: 'hot', us: 13 },
    false,
  ],
  ['accepts a hot causal time at two thirds of the tensor peak', L4, '2x8x512x64c', { mode: 'hot', us: 6.5 }, false],
  ['accepts a cold time if the output may stay in L2', L4, '2x8x512x64', { mode: 'cold', us: 12 }, false],
  ['rejects a cold time that is too short to read the inputs', L4, '2x8x512x64', { mode: 'cold', us: 9.5 }, true],
  ['rejects a hot time faster than the tensor peak', L4, '2x8x512x64', { mode: 'hot', us: 8 }, true],
  [
    'rejects a hot time that is too short to read the inputs that L2 cannot hold',
    L4,
    '128x16x128x64',
    { mode: 'hot', us: 150 },
    true,
  ],
  // Measured in lab/results/h200-2026-11-21: cheating.impossible_time.bench.json and the ladder's fastest kernel.
  ['rejects the hot time of impossible_time', H200, '4x16x2048x64', { mode: 'hot', us: 2.19 }, true],
  ['rejects the cold time of impossible_time', H200, '4x16x2048x64', { mode: 'cold', us: 5.5 }, true],
  ['accepts the hot time of flashcore_v11', H200, '2x8x512x64', { mode: 'hot', us: 5.77 }, false],
] as const)('%s', (_, on, shape, measured, implausible) => {
  expect(isImplausible(timed(on, shape, measured))).toBe(implausible);
});

test('leastTime() names the bound: arithmetic or reads', () => {
  expect(
    [timed(L4, '2x8x512x64', { mode: 'hot', us: 13 }), timed(L4, '2x8x512x64', { mode: 'cold', us: 13 })].map(
      ({ leastUs, leastBasis }) => [leastUs!.toFixed(2), leastBasis],
    ),
  ).toEqual([
    ['8.87', '1.07 GFLOP at the tensor peak of 121 TFLOP/s'],
    ['10.49', '3.15 MB to read from device memory at 300 GB/s'],
  ]);
});

test('a launch finds at most as many bytes in L2 as fit into it', () => {
  const shape = parseShape('64x16x128x64');
  const of = (mode: TimingModeName, l2Bytes: number): number =>
    leastReadBytes(attentionCase(shape, 'fp16'), { mode, l2Bytes });
  expect([of('cold', 8e6), of('hot', 8e6), of('hot', 60e6)]).toEqual([50_331_648, 50_331_648 - 8e6, 0]);
});

test('keys before a window are not counted as read', () => {
  const problem = installedProblem('attention_decode');
  const bytesWith = (window: number): number => {
    const shape = { B: 32, H: 64, Hkv: 8, Skv: 8192, D: 64, S: 1, window };
    return leastReadBytes(problemCase(problem, shape, 'bf16'), { mode: 'cold', l2Bytes: 50e6 });
  };
  const [key, others] = [2 * 2 * 32 * 8 * 64, 2 * 32 * 64 * 64 + 4 * 32];
  expect([bytesWith(-1), bytesWith(127)]).toEqual([key * 8192 + others, key * 128 + others]);
});

test('there is no bound for a device with unknown rates or for the emulator', () => {
  const shape = parseShape('2x8x512x64');
  expect(
    [
      create(DeviceSchema, { name: 'NVIDIA unknown' }),
      create(DeviceSchema, { name: DATA_SHEETS[0]!.name, simulated: true }),
    ].map((on) => leastTime(on, attentionCase(shape, 'fp16'), { mode: 'hot' })),
  ).toEqual([undefined, undefined]);
});

test('a time that is too short is a finding that names the bound, and makes the result invalid', () => {
  const shape = parseShape('4x16x2048x64');
  const result = timed(H200, '4x16x2048x64', { mode: 'hot', us: 2.19 });
  const text = '2.19 us, and the work takes 69.5 us at least (68.7 GFLOP at the tensor peak of 989 TFLOP/s)';
  expect(timingFindings([report({})], [result], { shape }).map(({ kind, message }) => [kind, message])).toEqual([
    [FindingKind.IMPLAUSIBLE_TIME, `4x16x2048x64: ${text}`],
  ]);
  expect(invalidReasons(report({}), { device: H200, timed: result })).toEqual([`implausible: ${text}`]);
});

test('a result is invalid if more than a tenth of its samples were throttled, and its samples are kept', () => {
  const reasons = (throttled: number): string[] =>
    invalidReasons(report({ throttled }), {
      device: L4,
      timed: timed(L4, '2x8x512x64', { mode: 'hot', us: 13 }),
      shortened: '',
    });
  expect([reasons(10), reasons(11)]).toEqual([
    [],
    ['in 11 of 100 samples the device was throttled by hardware or heat'],
  ]);
});
