import { expect, test } from 'vitest';
import { clockMhz } from './clock-stamps.ts';
import { ClockWatch } from './clock-watch.ts';

const fallen = (clocks: readonly number[]): number[] => {
  const watch = new ClockWatch();
  return clocks.flatMap((clock, index) => (watch.fell(clock) ? [index] : []));
};
const steady = (count: number, mhz: number): number[] => Array.from({ length: count }, (_, index) => mhz + (index % 3));

test('reports only samples whose clock fell by more than 2 %, not their neighbors and not a rise', () => {
  expect(fallen([...steady(20, 1980), 1900, 1945, ...steady(5, 1980), 2100, 1980])).toEqual([20]);
});

test('reports a permanently lower clock until the rolling median has followed', () => {
  const told = fallen([...steady(100, 1980), ...steady(100, 1500)]);
  expect([told[0], told.at(-1)! - told[0]! < 34]).toEqual([100, true]);
});

test('drops nothing on a power-capped card far below its maximum, and ignores unknown clocks', () => {
  expect(fallen([...steady(50, 1100), 0, ...steady(50, 1101)])).toEqual([]);
});

test('clockMhz() returns 0 if the stamps ran on different SMs or the timer stood still', () => {
  const stamps = (...words: bigint[]): BigUint64Array => BigUint64Array.from(words);
  expect(clockMhz(stamps(1_000n, 50_000n, 3n, 11_000n, 69_800n, 3n))).toBeCloseTo(1980, 9);
  expect([clockMhz(stamps(1_000n, 1n, 3n, 11_000n, 2n, 4n)), clockMhz(stamps(1_000n, 1n, 3n, 1_000n, 2n, 3n))]).toEqual(
    [0, 0],
  );
});
