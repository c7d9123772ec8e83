import fc from 'fast-check';
import { expect, test } from 'vitest';
import { estimateLatency, type LaunchWork, type MeasuredLaunch } from './estimate.ts';

const L4 = { multiprocessors: 58, fp16TensorTflops: 121, clockMhz: 2040 };
const work: LaunchWork = {
  ctas: 128,
  ctasPerSm: 1,
  flops: 4 * 2 * 8 * 512 * 512 * 64,
  tensorShare: 1,
  exponentials: 2 * 8 * 512 * 512,
};
const measured: MeasuredLaunch = {
  us: 11,
  clockMhz: 2040,
  multiprocessors: 132,
  ctas: 128,
  launchUs: 1,
  busyPercent: 30,
};

test('three CTAs per SM that are not co-resident take three times as long as one', () => {
  expect(estimateLatency(L4, work, measured)).toMatchObject({
    lowUs: 31,
    highUs: 31,
    limiter: 'latency',
    ctasOnBusiestSm: 3,
  });
});

test('three co-resident CTAs take as long as one, unless a unit is full', () => {
  const { lowUs, highUs, limiter, terms } = estimateLatency(L4, { ...work, ctasPerSm: 3 }, measured);
  // FLOPs of three of 128 CTAs, at 121 TFLOP/s over 58 SMs.
  expect(terms['tensor cores']).toBeCloseTo((((3 / 128) * work.flops) / (121e12 / 58)) * 1e6);
  expect([limiter, lowUs, highUs]).toEqual(['tensor cores', 1 + terms['tensor cores'], 31]);
});

test('the clock and the work of a CTA scale the cycles', () => {
  expect(estimateLatency({ ...L4, clockMhz: 1020 }, work, measured).highUs).toBeCloseTo(61);
  // 64 CTAs with twice the rows: the busiest SM has two, and each takes twice as long.
  expect(estimateLatency(L4, { ...work, ctas: 64 }, measured).highUs).toBeCloseTo(41);
});

test('the low bound is never above the high bound, and no unit exceeds its peak', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 4096 }),
      fc.integer({ min: 1, max: 8 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.double({ min: 2, max: 500, noNaN: true }),
      (ctas, ctasPerSm, tensorShare, us) => {
        const { lowUs, highUs } = estimateLatency(
          L4,
          { ...work, ctas, ctasPerSm, tensorShare },
          { ...measured, ctas, us },
        );
        return lowUs <= highUs && lowUs >= (work.flops * tensorShare) / 121e6 && highUs >= measured.launchUs;
      },
    ),
  );
});
