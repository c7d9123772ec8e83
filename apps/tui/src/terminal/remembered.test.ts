import { expect, test } from 'vitest';
import { remembered } from './row-output.ts';

test('remembered() computes the answer for a text once, and forgets it after many other texts', () => {
  const asked: string[] = [];
  const length = remembered((text) => {
    asked.push(text);
    return `${text.length}`;
  });
  expect([length('ab'), length(''), length('ab'), length('')]).toEqual(['2', '0', '2', '0']);
  expect(asked).toEqual(['ab', '']);
  for (let other = 0; other < 700; other++) length(`other ${other}`);
  length('ab');
  expect(asked.filter((text) => text === 'ab')).toHaveLength(1);
  for (let other = 700; other < 2_000; other++) length(`other ${other}`);
  length('ab');
  expect(asked.filter((text) => text === 'ab')).toHaveLength(2);
});
