import { expect, test } from 'vitest';
import { parseShape } from '@flashcore/shared/kernels';
import { rowText } from '../cells/row.ts';
import { table } from '../cells/table.ts';
import { caseColumns, sharedText } from './case-columns.ts';

/** The lines of a table of cases with these shapes and names. The first line is the text that all cases share. */
function shown(rows: readonly (readonly [string, string?])[], width = 80): string[] {
  const shapes = rows.map(([text, name = '']) => ({ ...parseShape(text), name }));
  const { header, rows: lines } = table(caseColumns(shapes, { shape: (shape) => shape, width }), shapes, width);
  return [sharedText(shapes, width), ...[header, ...lines].map((row) => rowText(row).trimEnd())];
}

test('plain attention keeps its short form', () => {
  expect(shown([['2x8x512x64'], ['2x8x512x64c']])).toEqual(['', 'case', '2x8x512x64', '2x8x512x64c']);
});

test('axes and attributes that differ among the cases have columns, in their given order, and the others are shown once', () => {
  expect(
    shown(
      [
        ['B=32,H=32,Hkv=8,Skv=8192,D=128', 'Llama-3 8B 8k'],
        ['B=32,H=64,Hkv=8,Skv=8192,D=64,window=127', 'gpt-oss 8k window'],
        ['B=7,H=4,Hkv=8,Skv=200,D=64'],
      ],
      90,
    ),
  ).toEqual([
    'Hkv=8',
    'case                B   H    D   Skv  window',
    'Llama-3 8B 8k      32  32  128  8192       -',
    'gpt-oss 8k window  32  64   64  8192     127',
    '                    7   4   64   200       -',
  ]);
});

test('an axis that only a later case has gets its usual place among the columns', () => {
  expect(shown([['B=7,H=4,Skv=200,D=64'], ['B=3,H=4,Skv=200,D=64,S=4']])).toEqual([
    'H=4, D=64, Skv=200',
    ...['B  S', '7  -', '3  4'],
  ]);
});

test('cases without names have no column of names', () => {
  expect(shown([['rows=1,N=64'], ['rows=129,N=64']])).toEqual(['N=64', 'rows', '   1', ' 129']);
});

test('a single case is shown as one text, and so are cases whose columns would leave too little room for the figures', () => {
  expect(shown([['rows=33,N=4096', 'Llama-3 8B']])).toEqual(['', 'case', 'N=4096,rows=33 (Llama-3 8B)']);
  expect(sharedText([1, 2].map(() => ({ ...parseShape('rows=33,N=4096'), name: 'Llama-3 8B' })))).toBe(
    'N=4096,rows=33 (Llama-3 8B)',
  );
  const many = ['B=7,H=4,Skv=200', 'B=8,H=32,Skv=257,window=127', 'B=6,H=16,Skv=100,softcap=50'].map(
    (text) => [text] as const,
  );
  expect(shown(many, 80)[1]).toBe('B   H  Skv  window  softcap');
  expect(shown(many, 64).slice(0, 3)).toEqual(['', 'case', 'B=7,H=4,Skv=200']);
});
