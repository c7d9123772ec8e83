import { Random } from '@flashcore/shared/statistics';
import { expect, test } from 'vitest';
import { overShapes, paretoFront, race, type Measured } from './race.ts';

/** A race among variants of known speed, with simulated noise that shrinks as samples increase. */
async function raceOf(us: Record<string, number>, { rounds = 4, budget = Infinity, seed = 1 } = {}) {
  const random = new Random(seed);
  const dropped: Record<string, string> = {};
  const measured: string[] = [];
  const end = await race({
    contenders: Object.keys(us),
    samples: 10,
    rounds,
    measure: (leader, contender, samples) => {
      measured.push(`${leader} ${contender} ${samples}`);
      if (Number.isNaN(us[contender])) return Promise.resolve(undefined);
      const half = 0.05 / Math.sqrt(samples);
      const ratio = (us[leader]! / us[contender]!) * (1 + (half / 2) * random.normal());
      return Promise.resolve({ ratio, low: ratio - half, high: ratio + half });
    },
    mayGoOn: () => measured.length < budget,
    onDropped: (contender, why) => (dropped[contender] = why),
  });
  return { winner: end.standing[0]?.contender, end, dropped, measured };
}

test('the fastest variant wins from any position, and clearly slower variants are measured once', async () => {
  const us = { a: 20, b: 10, c: 40, d: 10.9, e: 11.5, f: 80 };
  for (const order of [Object.entries(us), Object.entries(us).toReversed()]) {
    const { winner, dropped, measured } = await raceOf(Object.fromEntries(order));
    expect(winner).toBe('b');
    expect(dropped['c']).toMatch(/slower than the leader of round 1|slower half/);
    expect(measured.filter((each) => each.includes(' c ') || each.includes(' f ')).length).toBeLessThanOrEqual(2);
  }
});

test('equal variants stay in the standing together; each round halves their number and doubles the samples', async () => {
  const us = Object.fromEntries(Array.from({ length: 8 }, (_, index) => [`v${index}`, 10]));
  const { end, measured } = await raceOf(us);
  const perRound = [10, 20, 40, 80].map((samples) => measured.filter((each) => each.endsWith(` ${samples}`)).length);
  expect(perRound[0]).toBe(7);
  expect(perRound[1]).toBeLessThanOrEqual(4);
  expect(perRound[3]).toBeLessThanOrEqual(2);
  expect(end.standing.length).toBeGreaterThanOrEqual(2);
});

test("a dropped variant's reason compares it with the round's fastest variant, even if another one led", async () => {
  const { dropped } = await raceOf({ leader: 20, a: 10, b: 12.5, c: 16, d: 18 }, { rounds: 2 });
  expect(dropped['d']).toMatch(/^in the slower half of round 1: about 0\.5\d\dx as fast as the fastest in it$/);
});

test('a variant that fails during timing is dropped, a single variant wins, and without variants the standing is empty', async () => {
  expect((await raceOf({ a: 10, b: Number.NaN })).dropped).toEqual({ b: 'failed while it was timed' });
  expect((await raceOf({ a: 10 })).winner).toBe('a');
  expect((await raceOf({})).end.standing).toEqual([]);
});

test('an exhausted budget ends the race at once', async () => {
  const { end, measured } = await raceOf({ a: 12, b: 10, c: 11, d: 13 }, { budget: 4 });
  expect([end.complete, measured.length, end.standing.length > 0]).toEqual([false, 4, true]);
});

test('overShapes() takes geometric means; paretoFront() keeps points that no other beats in every figure', () => {
  const measured = (ratio: number): Measured => ({ ratio, low: ratio, high: ratio });
  expect(overShapes([measured(2), measured(0.5)])?.ratio).toBeCloseTo(1);
  expect(overShapes([])).toBeUndefined();
  expect(
    paretoFront([
      [10, 128],
      [12, 64],
      [11, 130],
      [undefined, 1],
      [10, 128],
    ]),
  ).toEqual([0, 1, 4]);
});
