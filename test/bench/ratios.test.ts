import { expect, test } from 'vitest';
import { figureOf, isWorse, type Bench } from './ratios.ts';

/** A bench whose measurements take so many milliseconds, the first ones of each list once. */
function bench(ours: number[], yardstick: number[]): Bench {
  const next = (values: number[]) => () => Promise.resolve(values.length > 1 ? values.shift()! : values[0]!);
  return { id: 'a', what: 'b', yardstick: 'c', measure: next(ours), measureYardstick: next(yardstick) };
}

test('figureOf() leaves the first round out, and takes the ratio of each round for itself', async () => {
  // The machine is half as fast from the third round on: no ratio changes.
  const figure = await figureOf(bench([900, 20, 20, 40, 40, 40], [1, 10, 10, 20, 20, 20]));
  expect(figure).toMatchObject({ milliseconds: 40, yardstickMilliseconds: 20, ratio: 2 });
});

test('isWorse() is true where all three tries are 1.3 times as much, not where one is better', async () => {
  const first = { ratio: 2 } as Awaited<ReturnType<typeof figureOf>>;
  expect(await isWorse(bench([20], [10]), first, 1.5)).toBe(true);
  expect(await isWorse(bench([20], [10]), first, 1.6)).toBe(false);
  // One busy moment: the second try is as before.
  expect(await isWorse(bench([15], [10]), first, 1.5)).toBe(false);
});
