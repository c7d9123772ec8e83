import fc from 'fast-check';
import { expect, test } from 'vitest';
import { cpuMs } from '../text/deadline.ts';
import { Random } from './random.ts';
import { describe as describeSamples, histogram, medianInterval, quantile, ratioInterval } from './statistics.ts';

const normals = (count: number, seed: number, mean = 100, stddev = 5) => {
  const random = new Random(seed);
  return Float64Array.from({ length: count }, () => mean + stddev * random.normal());
};

test("quantiles interpolate like NumPy's default", () => {
  // numpy.quantile([1, 2, 4, 8, 16], [0, .1, .25, .5, .9, 1])
  expect([0, 0.1, 0.25, 0.5, 0.9, 1].map((share) => quantile([16, 1, 8, 2, 4], share))).toEqual(
    [1, 1.4, 2, 4, 12.8, 16].map((value) => expect.closeTo(value, 12) as number),
  );
});

test('describe() gives the statistics of known samples', () => {
  expect(describeSamples([2, 4, 4, 4, 5, 5, 7, 9], { dropped: 3 })).toMatchObject({
    samples: 8,
    dropped: 3,
    minUs: 2,
    p50Us: 4.5,
    maxUs: 9,
    meanUs: 5,
    stddevUs: expect.closeTo(Math.sqrt(32 / 7), 12) as number,
  });
  expect(describeSamples([], { dropped: 2 })).toMatchObject({ samples: 0, dropped: 2, p50Us: 0 });
  expect(describeSamples([7])).toMatchObject({ samples: 1, p50Us: 7, stddevUs: 0, p50LowUs: 7, p50HighUs: 7 });
});

test('medianInterval() equals the result of resampling all samples', () => {
  for (const count of [9, 40, 101]) {
    const samples = normals(count, count);
    const random = new Random(99);
    const medians = Float64Array.from({ length: 6_000 }, () =>
      quantile(
        Float64Array.from({ length: count }, () => samples[Math.floor(random.uniform() * count)]!),
        0.5,
      ),
    );
    const interval = medianInterval(samples);
    const width = interval.high - interval.low;
    expect(Math.abs(interval.low - quantile(medians, 0.025)) / width).toBeLessThan(0.06);
    expect(Math.abs(interval.high - quantile(medians, 0.975)) / width).toBeLessThan(0.06);
  }
});

test('95 % intervals contain the true median and the true ratio about 95 times of 100', () => {
  let [medians, ratios] = [0, 0];
  for (let seed = 1; seed <= 300; ++seed) {
    const { low, high } = medianInterval(normals(100, seed));
    medians += Number(low <= 100 && 100 <= high);
    const speedup = ratioInterval(normals(100, seed + 1_000, 150, 6), normals(100, seed + 2_000, 100, 5));
    ratios += Number(speedup.low <= 1.5 && 1.5 <= speedup.high);
  }
  expect(medians / 300).toBeGreaterThan(0.9);
  expect(ratios / 300).toBeGreaterThan(0.9);
  expect((medians + ratios) / 600).toBeLessThan(0.99);
});

test('intervals are repeatable, and quick for 10,000 samples', () => {
  const samples = normals(10_000, 5);
  medianInterval(samples);
  const start = cpuMs();
  const statistics = describeSamples(samples);
  expect(cpuMs() - start).toBeLessThan(100);
  expect(describeSamples(samples)).toEqual(statistics);
  expect((statistics.p50HighUs - statistics.p50LowUs) / 2 / statistics.p50Us).toBeLessThan(0.005);
});

test('histogram() counts every sample once, in a bin, the underflow or the overflow', () => {
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: 1e-3, max: 1e6, noNaN: true }), { minLength: 1, maxLength: 300 }),
      fc.option(fc.integer({ min: 1, max: 40 })),
      (samples, bins) => {
        const { lowUs, binWidthUs, counts, underflow, overflow } = histogram(samples, bins ?? undefined);
        expect(counts.reduce((a, b) => a + b, 0) + underflow + overflow).toBe(samples.length);
        expect(counts.length).toBeLessThanOrEqual(64);
        expect(binWidthUs).toBeGreaterThan(0);
        expect(samples.filter((sample) => sample < lowUs).length).toBe(underflow);
      },
    ),
  );
});

test('one stalled launch goes to overflow instead of squeezing the rest into one bin', () => {
  const { counts, overflow } = histogram([...normals(500, 3), 90_000]);
  expect(overflow).toBe(1);
  expect(counts.filter((count) => count > 0).length).toBeGreaterThan(10);
});

test('NaN is refused instead of being sorted', () => {
  expect(() => describeSamples([1, NaN])).toThrow(RangeError);
});
