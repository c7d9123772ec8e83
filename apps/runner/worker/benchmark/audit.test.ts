import { expect, test } from 'vitest';
import { leastRatio } from './audit.ts';

/** The ratio that is told of measurements with these results, and how many were made. */
function measured(ratios: readonly number[], limit: number): { ratio: number; times: number } {
  let times = 0;
  const ratio = leastRatio(() => ratios[times++]!, limit);
  return { ratio, times };
}

test('leastRatio() measures again what is above the limit, three times at most', () => {
  expect(measured([1.9], 2)).toEqual({ ratio: 1.9, times: 1 });
  expect(measured([2.2, 1.1], 2)).toEqual({ ratio: 1.1, times: 2 });
  expect(measured([3.1, 2.9, 3.4], 2)).toEqual({ ratio: 2.9, times: 3 });
});

test('leastRatio() without a limit takes the first measurement', () => {
  expect(measured([40], Infinity)).toEqual({ ratio: 40, times: 1 });
});
