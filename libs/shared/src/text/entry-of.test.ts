import { expect, test } from 'vitest';
import { entryOf, setEntry, withoutEntry } from './entry-of.ts';

test.each(['toString', 'constructor', '__proto__', 'hasOwnProperty'])(
  'entryOf() treats %s like any other key',
  (key) => {
    const object: Record<string, number> = { a: 1 };
    expect(entryOf(object, key)).toBeUndefined();
    setEntry(object, key, 2);
    expect([entryOf(object, key), Object.keys(object), Object.getPrototypeOf(object)]).toEqual([
      2,
      ['a', key],
      Object.prototype,
    ]);
    expect(withoutEntry(object, key)).toEqual({ a: 1 });
  },
);
