import { expect, test } from 'vitest';
import { documents } from './write.ts';

test.each((await documents()).map((document) => [document.path, document] as const))(
  'the tables of %s are what `npm run ladder` writes',
  (_, { current, wanted }) => {
    expect(current).toBe(wanted);
  },
);
