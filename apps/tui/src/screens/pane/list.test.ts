import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import { list } from './list.ts';

test('arrows mark the ends behind which a list has more rows', () => {
  const items = Array.from({ length: 9 }, (_, index) => `item ${index}`);
  const marks = (selected: number) =>
    list([{ title: 'item', cell: (item: string) => item }], items, {
      ...{ width: 20, height: 5, focused: true },
      selected,
    })
      .map((row) => rowText(row).slice(0, 1))
      .join('');
  expect([0, 4, 8].map(marks)).toEqual([' ▸  ▾', '↑  ▸▾', '↑   ▸']);
});
