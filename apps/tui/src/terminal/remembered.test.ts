import { expect, test } from 'vitest';
import { remembered } from './remembered.ts';

test('a text is asked about once while it is in use, and forgotten when a thousand others were', () => {
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
