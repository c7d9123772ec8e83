import { expect, test } from 'vitest';
import { RunningCost } from './running-cost.ts';

test('each running job costs its client the whole seconds so far plus one, updated at most four times a second', () => {
  let now = 1_000_000;
  const began = (owner: string) => {
    const since = now;
    return {
      owner,
      looks: 0,
      deviceMs(nowMs: number) {
        this.looks += 1;
        return nowMs - since;
      },
    };
  };
  const running = new RunningCost(() => now);
  const [first, second, other] = [began('ada'), began('ada'), began('bob')];
  for (const run of [first, second, other]) running.add(run);
  const costs = () => ['ada', 'bob', 'eve'].map((owner) => running.of(owner));
  expect(costs()).toEqual([2, 1, 0]);
  now += 2_500;
  expect(costs()).toEqual([6, 3, 0]);
  const { looks } = first;
  now += 249;
  for (let asked = 0; asked < 100; asked += 1) running.of('ada');
  expect(first.looks).toBe(looks);
  running.delete(first);
  expect(costs()).toEqual([3, 3, 0]);
  running.delete(second);
  now += 1_000;
  expect(costs()).toEqual([0, 4, 0]);
});
