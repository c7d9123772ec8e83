import { expect, test } from 'vitest';
import { CounterRandom, philox2x32 } from './random.ts';

test('philox2x32() gives the known answers of Random123', () => {
  expect([
    philox2x32(0, 0, 0),
    philox2x32(0xffffffff, 0xffffffff, 0xffffffff),
    philox2x32(0x243f6a88, 0x85a308d3, 0x13198a2e),
  ]).toEqual([
    [0xff1dae59, 0x6cd10df2],
    [0x2c3f628b, 0xab4fd7ad],
    [0xdd7ce038, 0xf62a4c12],
  ]);
});

test('fillNormal() has the moments of N(0, 1)', () => {
  const values = new Float32Array(200_001);
  new CounterRandom('0123456789abcdef', 1).fillNormal(values, 1);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  const beyondTwo = values.filter((value) => Math.abs(value) > 2).length / values.length;
  expect([mean, variance - 1, beyondTwo - 0.0455].map((value) => Math.abs(value) < 0.01)).toEqual([true, true, true]);
});

test('streams of one seed differ, and the same stream repeats', () => {
  const first = (stream: number): number[] => {
    const random = new CounterRandom('ff', stream);
    return Array.from({ length: 4 }, () => random.next());
  };
  expect(first(1)).toEqual(first(1));
  expect(first(1)).not.toEqual(first(2));
});
