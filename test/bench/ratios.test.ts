import { createHash } from 'node:crypto';
import { cpuMs } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { figureOf, slowed, type Bench } from './ratios.ts';

/** Enough rounds that a busy machine does not move the median by a third. */
const ROUNDS_OF_TEST = 15;

/** A bench whose measurements take the listed milliseconds; each list's first entry is used once. */
function bench(ours: number[], yardstick: number[]): Bench {
  const next = (values: number[]) => () => Promise.resolve(values.length > 1 ? values.shift()! : values[0]!);
  return { id: 'a', what: 'b', yardstick: 'c', measure: next(ours), measureYardstick: next(yardstick) };
}

test("figureOf() drops the first round and takes the median of the rounds' ratios", async () => {
  // The machine is half as fast from the third round on, which changes no ratio.
  const figure = await figureOf(bench([900, 20, 20, 40, 40, 40], [1, 10, 10, 20, 20, 20]));
  expect(figure).toMatchObject({ milliseconds: 40, yardstickMilliseconds: 20, ratio: 2 });
});

test('notices work that is done twice, and passes unchanged work', async () => {
  const hashing = (bytes: number) => (): Promise<number> => {
    const before = cpuMs();
    createHash('sha256').update(Buffer.alloc(bytes)).digest();
    return Promise.resolve(cpuMs() - before);
  };
  const work = { id: 'a', what: 'b', yardstick: 'c', measure: hashing(8e6), measureYardstick: hashing(4e6) };
  // For ratios to the yardstick: another process on the same core slows both.
  const ratioOf = async (each: Bench) => (await figureOf(each, ROUNDS_OF_TEST)).ratio;
  const once = await ratioOf(work);
  const quotientOf = async (each: Bench) => (await ratioOf(each)) / once;
  expect(await quotientOf(work)).toBeLessThan(1.3);
  expect(await quotientOf(slowed(work))).toBeGreaterThan(1.3);
});
