import { createHash } from 'node:crypto';
import { cpuMs } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { figureOf, slowed, type Bench } from './ratios.ts';

/** With this many rounds, a busy machine moves the median by less than a third. */
const ROUNDS_OF_TEST = 15;

/** A bench whose measurements return the listed milliseconds in turn, and then repeat the last. */
function bench(ours: number[], yardstick: number[]): Bench {
  const next = (values: number[]) => () => Promise.resolve(values.length > 1 ? values.shift()! : values[0]!);
  return { id: 'a', what: 'b', yardstick: 'c', measure: next(ours), measureYardstick: next(yardstick) };
}

test("figureOf() drops the first round and takes the median of the rounds' ratios", async () => {
  // From the third round on the machine is half as fast for both, so the ratios stay the same.
  const figure = await figureOf(bench([900, 20, 20, 40, 40, 40], [1, 10, 10, 20, 20, 20]));
  expect(figure).toMatchObject({ milliseconds: 40, yardstickMilliseconds: 20, ratio: 2 });
});

test('figureOf() reports a bench that does its work twice as slower, and unchanged work as equal', async () => {
  const hashing = (bytes: number) => (): Promise<number> => {
    const before = cpuMs();
    createHash('sha256').update(Buffer.alloc(bytes)).digest();
    return Promise.resolve(cpuMs() - before);
  };
  const work = { id: 'a', what: 'b', yardstick: 'c', measure: hashing(8e6), measureYardstick: hashing(4e6) };
  // The comparison uses ratios to the yardstick because another process on the same core slows both the work and the
  // yardstick.
  const ratioOf = async (each: Bench) => (await figureOf(each, ROUNDS_OF_TEST)).ratio;
  const once = await ratioOf(work);
  const quotientOf = async (each: Bench) => (await ratioOf(each)) / once;
  expect(await quotientOf(work)).toBeLessThan(1.3);
  expect(await quotientOf(slowed(work))).toBeGreaterThan(1.3);
});
