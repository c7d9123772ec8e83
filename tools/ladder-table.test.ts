import { expect, test } from 'vitest';
import { documents } from './ladder-table.ts';

test.each(documents().map((document) => [document.path, document] as const))('the tables of %s are what `npm run ladder` makes of docs/results', (_, { current, wanted }) => {
  expect(current).toBe(wanted);
});
