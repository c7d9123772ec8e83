import { blockRatioInterval, medianInterval, Random, median } from '@flashcore/shared/statistics';
import { describe, expect, it, test } from 'vitest';
import { type ClockStamps, clockMhz } from './clock-stamps.ts';
import type { Conditions } from './conditions.ts';
import type { CudaDriver } from '../driver/cuda-driver.ts';
import { judgeSlow, Looks, narrowEnough, SlowDown, ClockWatch } from './sampling.ts';

describe('samples in which the device was slow', () => {
  const clocksMhz = [1980, 1700, 1980];
  const fell = [false, true, false];

  it.each([
    ['are dropped one by one if the clock fell', false, false, { dropped: [1], slowed: 0, throttled: 0 }],
    ['are dropped with their batch if throttled', true, false, { dropped: [0, 1, 2], slowed: 0, throttled: 0 }],
    // The other side has no clocks to drop samples by, and keeps its throttled samples.
    ['are kept in turns, and their number is reported', false, true, { dropped: [], slowed: 1, throttled: 0 }],
    ['are kept in turns even if throttled', true, true, { dropped: [], slowed: 0, throttled: 3 }],
  ])('%s', (_, throttled, turns, judged) => {
    expect(judgeSlow({ clocksMhz, fell, throttled }, { turns })).toEqual(judged);
  });
});

describe('two builds in turns', () => {
  // A draws little power and runs at 1980 MHz; B draws more and runs at 1500 MHz. Neither has slowed down.
  const block = [1980, 1500, 1500, 1980];
  const blocks = (count: number): number[] => Array.from({ length: count }, () => block).flat();
  const slowDown = (clocks: number[]): SlowDown =>
    new SlowDown({ facts: { simulated: false } } as CudaDriver, {
      stamps: { read: () => clocks } as unknown as ClockStamps,
      conditions: { throttled: () => false } as unknown as Conditions,
      mode: 'hot',
    });

  it('have separate clock watches: a build that draws more power is not regarded as slowed down', () => {
    const { fell } = slowDown(blocks(50)).batch(200, [0, 1, 2, 3]);
    expect(fell.some(Boolean)).toBe(false);
    const asOne = slowDown(blocks(50)).batch(200);
    expect(asOne.fell.some(Boolean)).toBe(true);
  });

  it('still drop a sample whose clock fell compared with earlier samples at the same place of the turn', () => {
    const clocks = [...blocks(20), 1980, 1400, 1500, 1980];
    const { fell } = slowDown(clocks).batch(84, [0, 1, 2, 3]);
    expect(fell.flatMap((each, index) => (each ? [index] : []))).toEqual([81]);
  });
});

/** The protocol's values: at least 100 samples, at most 2,000, within 0.5 %. */
const PROTOCOL = { fewest: 100, most: 2_000, halfWidth: 0.005 };
const BATCH = 8;

describe('the interval that decides when there are enough samples', () => {
  it('is computed at sample counts that grow by a quarter', () => {
    const looks = new Looks(100);
    const at = Array.from({ length: 400 }, (_, samples) => samples).filter((samples) => looks.due(samples));
    expect(at).toEqual([100, 125, 157, 197, 247, 309, 387]);
  });

  it('contains the true median about 95 times of 100 when sampling stops', () => {
    let [held, narrow, later] = [0, 0, 0];
    const runs = 40;
    for (let seed = 1; seed <= runs; ++seed) {
      const random = new Random(seed);
      const samples: number[] = [];
      const looks = new Looks(PROTOCOL.fewest);
      const isEnough = (): boolean =>
        looks.due(samples.length) &&
        narrowEnough(medianInterval(samples), { of: median(samples), halfWidth: PROTOCOL.halfWidth });
      do for (let sample = 0; sample < BATCH; ++sample) samples.push(10 * Math.exp(0.03 * random.normal()));
      while (!isEnough() && samples.length < PROTOCOL.most);
      const { low, high } = medianInterval(samples);
      held += Number(low <= 10 && 10 <= high);
      narrow += Number(samples.length < PROTOCOL.most);
      later += Number(samples.length > 1.5 * PROTOCOL.fewest);
    }
    expect(held / runs).toBeGreaterThan(0.9);
    // Most runs compute the interval several times before they stop.
    expect([narrow / runs > 0.9, later / runs > 0.8]).toEqual([true, true]);
  });

  it('accepts a 3 % faster candidate in a few of 100 comparisons and a 5 % faster one always', () => {
    const accepted = (ratio: number, runs: number): number => {
      let count = 0;
      for (let seed = 1; seed <= runs; ++seed) count += Number(comparedLow(ratio, seed) >= 1.03);
      return count / runs;
    };
    expect(accepted(1.03, 60)).toBeLessThan(0.07);
    expect(accepted(1.05, 5)).toBe(1);
  });
});

/** Runs blocks A B B A of two builds until the interval of their ratio is narrow; returns the interval's lower end. */
function comparedLow(ratio: number, seed: number): number {
  const random = new Random(seed);
  const [champion, candidate]: [number[], number[]] = [[], []];
  const looks = new Looks(PROTOCOL.fewest);
  for (;;) {
    const pace = 1 + 0.01 * random.normal();
    for (let place = 0; place < 2; ++place) {
      champion.push(10 * ratio * pace * (1 + 0.02 * random.normal()));
      candidate.push(10 * pace * (1 + 0.02 * random.normal()));
    }
    if (!looks.due(champion.length)) continue;
    const interval = blockRatioInterval(champion, candidate, { perBlock: 2, resamples: 150 });
    const enough = narrowEnough(interval, { of: interval.ratio, halfWidth: PROTOCOL.halfWidth });
    if (enough || champion.length >= PROTOCOL.most) return interval.low;
  }
}

const fallen = (clocks: readonly number[]): number[] => {
  const watch = new ClockWatch();
  return clocks.flatMap((clock, index) => (watch.fell(clock) ? [index] : []));
};
const steady = (count: number, mhz: number): number[] => Array.from({ length: count }, (_, index) => mhz + (index % 3));

test('reports only samples whose clock fell by more than 2 %, not their neighbors or a rise', () => {
  expect(fallen([...steady(20, 1980), 1900, 1945, ...steady(5, 1980), 2100, 1980])).toEqual([20]);
});

test('reports a permanently lower clock until the rolling median has followed', () => {
  const told = fallen([...steady(100, 1980), ...steady(100, 1500)]);
  expect([told[0], told.at(-1)! - told[0]! < 34]).toEqual([100, true]);
});

test('drops nothing on a power-capped card whose clock is far below its maximum, and ignores unknown clocks', () => {
  expect(fallen([...steady(50, 1100), 0, ...steady(50, 1101)])).toEqual([]);
});

test('clockMhz() returns 0 if the stamps ran on different SMs or the timer stood still', () => {
  const stamps = (...words: bigint[]): BigUint64Array => BigUint64Array.from(words);
  expect(clockMhz(stamps(1_000n, 50_000n, 3n, 11_000n, 69_800n, 3n))).toBeCloseTo(1980, 9);
  expect([clockMhz(stamps(1_000n, 1n, 3n, 11_000n, 2n, 4n)), clockMhz(stamps(1_000n, 1n, 3n, 1_000n, 2n, 3n))]).toEqual(
    [0, 0],
  );
});
