import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { blockRatioInterval } from './block-ratio.ts';
import { judgeComparison, judgeShape, type MeasuredComparison } from './comparison.ts';
import {
  ComparisonVerdict,
  LatencyStatisticsSchema,
  RatioIntervalSchema,
  StopReason,
  TimingMode,
} from '../generated/flashcore/runner/v1/result_pb.js';
import { Random } from './random.ts';
import { parseShape } from '../kernels/shape.ts';
import { quantile } from './statistics.ts';

interface Simulation {
  ratio: number;
  drift: number;
  seed: number;
}

/**
 * Blocks A B B A of two builds whose times differ by `ratio`, on a device whose speed drifts by `drift` between blocks.
 */
function interleaved(
  blocks: number,
  { ratio, drift, seed }: Simulation,
): { champion: Float64Array; candidate: Float64Array } {
  const random = new Random(seed);
  const champion = new Float64Array(2 * blocks);
  const candidate = new Float64Array(2 * blocks);
  for (let block = 0; block < blocks; ++block) {
    const pace = 1 + drift * random.normal();
    for (const place of [2 * block, 2 * block + 1]) {
      champion[place] = 10 * ratio * pace * (1 + 0.002 * random.normal());
      candidate[place] = 10 * pace * (1 + 0.002 * random.normal());
    }
  }
  return { champion, candidate };
}

test('the ratio is that of the medians, and resampling whole blocks by hand gives the same interval', () => {
  const { champion, candidate } = interleaved(60, { ratio: 1.05, drift: 0.02, seed: 1 });
  const found = blockRatioInterval(champion, candidate, { perBlock: 2 });
  expect(found.ratio).toBeCloseTo(quantile(champion, 0.5) / quantile(candidate, 0.5), 12);
  const random = new Random(7);
  const ratios = Float64Array.from({ length: 4_000 }, () => {
    const drawn = Array.from({ length: 60 }, () => Math.floor(random.uniform() * 60));
    const of = (samples: Float64Array): number =>
      quantile(
        drawn.flatMap((block) => [samples[2 * block]!, samples[2 * block + 1]!]),
        0.5,
      );
    return of(champion) / of(candidate);
  });
  const width = found.high - found.low;
  expect(Math.abs(found.low - quantile(ratios, 0.025)) / width).toBeLessThan(0.08);
  expect(Math.abs(found.high - quantile(ratios, 0.975)) / width).toBeLessThan(0.08);
});

test('the 95 % interval contains the true ratio about 95 times of 100, and incomplete blocks are refused', () => {
  let held = 0;
  for (let seed = 1; seed <= 200; ++seed) {
    const { champion, candidate } = interleaved(50, { ratio: 1.03, drift: 0.01, seed });
    const { low, high } = blockRatioInterval(champion, candidate, { perBlock: 2, resamples: 1_000 });
    held += Number(low <= 1.03 && 1.03 <= high);
  }
  expect(held / 200).toBeGreaterThan(0.9);
  expect(() => blockRatioInterval([1, 2, 3], [1, 2, 3], { perBlock: 2 })).toThrow(RangeError);
});

const interval = (low: number, ratio: number, high: number) => create(RatioIntervalSchema, { low, ratio, high });
const still = interval(0.998, 1, 1.002);
const statistics = create(LatencyStatisticsSchema, { samples: 100 });
const measured: MeasuredComparison = {
  time: interval(1.04, 1.05, 1.06),
  cycles: interval(1.04, 1.05, 1.06),
  selfTime: still,
  selfCycles: still,
  selfBlocks: 50,
  champion: statistics,
  candidate: statistics,
  clockSource: 'stamps',
  stopReason: StopReason.CONVERGED,
  simulated: false,
};

test.each<[string, Partial<MeasuredComparison>, ComparisonVerdict]>([
  [
    'two lower ends of exactly 1.03 are FASTER',
    { time: interval(1.03, 1.04, 1.05), cycles: interval(1.03, 1.04, 1.05) },
    ComparisonVerdict.FASTER,
  ],
  [
    'a time that is shorter only by a higher clock is WITHIN_MARGIN',
    { cycles: interval(0.999, 1.001, 1.003) },
    ComparisonVerdict.WITHIN_MARGIN,
  ],
  [
    'a lower end just below 1.03 is WITHIN_MARGIN',
    { time: interval(1.0299, 1.04, 1.05) },
    ComparisonVerdict.WITHIN_MARGIN,
  ],
  [
    'a ratio just below 0.99 is SLOWER',
    { time: interval(0.98, 0.9899, 0.995), cycles: still },
    ComparisonVerdict.SLOWER,
  ],
  [
    'a slowdown in cycles only is SLOWER',
    { time: still, cycles: interval(0.98, 0.985, 0.99) },
    ComparisonVerdict.SLOWER,
  ],
  [
    'a champion that differs from itself is NOT_JUDGED',
    { selfTime: interval(0.984, 1, 1.01) },
    ComparisonVerdict.NOT_JUDGED,
  ],
  [
    'a champion that differs from itself in cycles is NOT_JUDGED',
    { selfCycles: interval(0.99, 1.01, 1.0151) },
    ComparisonVerdict.NOT_JUDGED,
  ],
  [
    'a champion with a narrow shift against itself is NOT_JUDGED',
    { selfTime: interval(1.0199, 1.02, 1.0201) },
    ComparisonVerdict.NOT_JUDGED,
  ],
  [
    'a candidate faster by far more than the champion differs from itself is FASTER',
    { selfTime: interval(0.99, 1, 1.0154), time: interval(2.9, 3, 3.1), cycles: interval(2.9, 3, 3.1) },
    ComparisonVerdict.FASTER,
  ],
  [
    'a candidate far faster than the champion differs from itself, but only in time, is NOT_JUDGED',
    { selfTime: interval(0.98, 1, 1.0154), time: interval(2.9, 3, 3.1) },
    ComparisonVerdict.NOT_JUDGED,
  ],
  [
    'a candidate slower by more than the champion differs from itself is SLOWER',
    { selfTime: interval(0.98, 1, 1.0154), time: interval(0.95, 0.96, 0.97), cycles: interval(0.95, 0.96, 0.97) },
    ComparisonVerdict.SLOWER,
  ],
  [
    'a candidate slower by less than the champion differs from itself is NOT_JUDGED',
    { selfTime: interval(0.98, 1, 1.0154), time: interval(0.97, 0.975, 0.98) },
    ComparisonVerdict.NOT_JUDGED,
  ],
  [
    'a self-check whose upper end is NaN is NOT_JUDGED',
    { selfTime: interval(0.9, 1, NaN) },
    ComparisonVerdict.NOT_JUDGED,
  ],
  ['a self-check whose samples were all dropped is NOT_JUDGED', { selfTime: undefined }, ComparisonVerdict.NOT_JUDGED],
  ['a self-check with one block is NOT_JUDGED', { selfBlocks: 1 }, ComparisonVerdict.NOT_JUDGED],
  ['a self-check without cycles is NOT_JUDGED', { selfCycles: undefined }, ComparisonVerdict.NOT_JUDGED],
  ['infinite ratios are NOT_JUDGED', { time: interval(Infinity, Infinity, Infinity) }, ComparisonVerdict.NOT_JUDGED],
  ['a ratio of cycles that is NaN is NOT_JUDGED', { cycles: interval(NaN, NaN, NaN) }, ComparisonVerdict.NOT_JUDGED],
  [
    'a missing ratio of cycles is NOT_JUDGED',
    { cycles: undefined, selfCycles: undefined },
    ComparisonVerdict.NOT_JUDGED,
  ],
  [
    'a comparison that ran out of time is NOT_JUDGED',
    { stopReason: StopReason.TIMED_OUT },
    ComparisonVerdict.NOT_JUDGED,
  ],
  [
    'a candidate with 28 samples is NOT_JUDGED',
    { candidate: create(LatencyStatisticsSchema, { samples: 28 }) },
    ComparisonVerdict.NOT_JUDGED,
  ],
  ['a time of the emulator is NOT_JUDGED', { simulated: true }, ComparisonVerdict.NOT_JUDGED],
])('judgeShape(): %s', (_, change, verdict) => {
  const { verdict: found } = judgeShape({ ...measured, ...change });
  expect(ComparisonVerdict[found]).toBe(ComparisonVerdict[verdict]);
});

test('a slower shape rejects, an unknown one leaves the verdict open, and otherwise one faster shape is enough', () => {
  const { FASTER, SLOWER, WITHIN_MARGIN, NOT_JUDGED } = ComparisonVerdict;
  const all = (...verdicts: ComparisonVerdict[]) =>
    judgeComparison(
      verdicts.map((verdict) => ({ verdict, reason: 'why' })),
      [],
    ).verdict;
  expect([
    all(FASTER, WITHIN_MARGIN),
    all(FASTER, NOT_JUDGED),
    all(FASTER, NOT_JUDGED, SLOWER),
    all(WITHIN_MARGIN),
    all(),
  ]).toEqual([FASTER, NOT_JUDGED, SLOWER, WITHIN_MARGIN, NOT_JUDGED]);
});

test('a shape in two modes counts as two comparisons of one shape, and the text of the deciding one names its mode', () => {
  const shape = parseShape('2x8x512x64');
  const inModes = (hot: ComparisonVerdict, cold: ComparisonVerdict) =>
    judgeComparison(
      [
        { shape, mode: TimingMode.COLD, verdict: cold, reason: 'why' },
        { shape, mode: TimingMode.HOT, verdict: hot, reason: 'why' },
      ],
      [shape],
    ).reason;
  expect([
    inModes(ComparisonVerdict.FASTER, ComparisonVerdict.FASTER),
    inModes(ComparisonVerdict.SLOWER, ComparisonVerdict.FASTER),
  ]).toEqual([
    '2x8x512x64 cold: why (2 of 2 comparisons, 1 shape)',
    '2x8x512x64 hot: why (1 of 2 comparisons, 1 shape)',
  ]);
});

test('a requested but unmeasured shape leaves the comparison undecided, unless a slower shape decides it', () => {
  const asked = ['2x8x512x64', '4x16x2048x64'].map(parseShape);
  const measured = (verdict: ComparisonVerdict) =>
    judgeComparison([{ shape: asked[0]!, verdict, reason: 'why' }], asked);
  expect([measured(ComparisonVerdict.FASTER), measured(ComparisonVerdict.SLOWER), judgeComparison([], asked)]).toEqual([
    { verdict: ComparisonVerdict.NOT_JUDGED, reason: '4x16x2048x64: it was not measured (1 of 2 shapes)' },
    { verdict: ComparisonVerdict.SLOWER, reason: '2x8x512x64: why (1 of 2 shapes)' },
    { verdict: ComparisonVerdict.NOT_JUDGED, reason: '2x8x512x64: it was not measured (2 of 2 shapes)' },
  ]);
});
