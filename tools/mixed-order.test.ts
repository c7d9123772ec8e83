import { expect, test } from 'vitest';
import { inTurns } from './mixed-order.ts';

test('inTurns() spreads each project over the whole run, and keeps the order within a project', () => {
  const file = (name: string, id: number) => ({ id, project: { name } });
  const files = [...[1, 2, 3, 4].map((id) => file('runner', id)), file('test', 5), file('test', 6), file('tools', 7)];
  expect(inTurns(files).map(({ id }) => id)).toEqual([1, 5, 7, 2, 3, 6, 4]);
});
