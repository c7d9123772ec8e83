/** Checks each kind of block in each painter. */
import { create } from '@bufbuild/protobuf';
import { CodeFrameSchema, HistogramSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { fact, facts, heading, notice, tableOf, type Block, type Column } from './blocks.ts';
import { blockRows } from './cells/cells-painter.ts';
import { rowText, rowWidth } from './cells/row.ts';
import { formatBytes, formatError, formatMicroseconds } from './numbers.ts';
import { markdownOf } from './plain/markdown-painter.ts';
import { plainLines } from './plain/plain-painter.ts';
import { piece } from './roles.ts';

interface Item {
  readonly name: string;
  readonly p50Us: number;
  readonly error: number;
}

const COLUMNS: Column<Item>[] = [
  { title: 'case', cell: ({ name }) => name, shrinkTo: 8 },
  { title: 'p50', align: 'right', cell: ({ p50Us }) => formatMicroseconds(p50Us) },
  { title: 'max error', align: 'right', drop: 1, cell: ({ error }) => piece(formatError(error), 'bad') },
];
const ITEMS: Item[] = [
  { name: '1x4x128x64', p50Us: 12_270, error: 4.884e-4 },
  { name: '2x8x512x64c', p50Us: 5.817, error: 0 },
];

const BLOCKS: Record<Block['kind'], Block> = {
  heading: heading('Latency 2x8x512x64', 'hot (back to back)'),
  facts: facts(
    fact('SMEM/CTA', formatBytes(24_576)),
    fact('deterministic', 'yes', 'good'),
    fact('clock', 'steady; a longer remark about the clock that takes more than a line of this width, as some do'),
    undefined,
    fact('nothing to say', ''),
  ),
  table: tableOf(COLUMNS, ITEMS, ({ error }) => (error > 0 ? piece('row 11 of query tile 9') : undefined)),
  notice: notice('1x4x128x64: two runs on the same input differed in their bits', 'warn', '!'),
  finding: {
    kind: 'finding',
    word: 'out of bounds',
    message: 'write of 2 bytes, 16 bytes past the end of O',
    facts: [fact('where', 'out_of_bounds.cu:31'), fact('threads', 'block (3, 0, 0) 0-31 write')],
    remedy: 'compare the index with the sequence length',
  },
  code: {
    kind: 'code',
    file: 'out_of_bounds.cu',
    frame: create(CodeFrameSchema, {
      firstLine: 30,
      line: 31,
      column: 3,
      lines: ['  const int row = blockIdx.x * 64 + threadIdx.x;', '  O[row * 64 + d] = acc;', '}'],
    }),
  },
  verbatim: { kind: 'verbatim', lines: ['# Why', '', '- as it is'] },
  outcome: { kind: 'outcome', word: 'wrong result', role: 'bad', job: 'jobs/01234567-89ab-4cde-8f01-23456789abcd' },
  plot: {
    kind: 'plot',
    drawing: {
      type: 'histogram',
      histogram: create(HistogramSchema, { lowUs: 5, binWidthUs: 0.5, counts: [1, 4, 9, 3, 0, 1], overflow: 2 }),
      marks: [{ label: 'p50', value: 6.2 }],
    },
  },
};

const PIPE = { width: 60, uncut: true, colors: false, ascii: false };

test.each(Object.entries(BLOCKS))('every painter draws a block of kind %s', async (kind, block) => {
  const cells = blockRows([block], 60);
  expect(cells.filter((row) => rowWidth(row) > 60)).toEqual([]);
  const drawn = [
    '=== cells, 60 wide',
    ...cells.map((row) => rowText(row).trimEnd()),
    '=== plain text',
    ...plainLines([block], PIPE),
    '=== plain text in ASCII',
    ...plainLines([block], { ...PIPE, ascii: true }),
    '=== Markdown',
    markdownOf([block]),
  ];
  await expect(drawn.join('\n')).toMatchFileSnapshot(`goldens/${kind}.txt`);
});

test('a pipe gets whole tables and words, a narrow terminal only the text that fits', () => {
  const narrow = plainLines([BLOCKS.table], { ...PIPE, uncut: false, width: 24 });
  expect(narrow.filter((line) => line.length > 24)).toEqual([]);
  expect(plainLines([BLOCKS.table], { ...PIPE, width: 10 })[0]).toBe('  case              p50  max error');
  const word = 'x'.repeat(90);
  expect(plainLines([notice(`a ${word} b`)], PIPE)).toEqual(['  a', `  ${word}`, '  b']);
});

test('roles become color codes, and output without colors contains no escape sequence', () => {
  expect(plainLines([BLOCKS.heading], { ...PIPE, colors: true }).join('')).toContain('\u001b[1mLatency');
  expect(plainLines(Object.values(BLOCKS), PIPE).join('')).not.toContain('\u001b');
});

test('every painter cleans foreign text, and in Markdown the text does not become structure', () => {
  const hostile = notice('a\u001b[31m|b\u202e `c`\n# d');
  expect(plainLines([hostile], PIPE)).toEqual(['  a|b `c` # d']);
  expect(markdownOf([hostile])).toBe('a\\|b \\`c\\` # d\n');
});

test.each([
  ['@octocat look', '@&#8203;octocat look'],
  ['a@b.example', 'a@&#8203;b.example'],
  ['https://evil.example/x', 'https:&#8203;//evil.example/x'],
  ['see www.evil.example', 'see www&#8203;.evil.example'],
  ['owner/repo#12, GH-7', 'owner/repo#&#8203;12, GH-&#8203;7'],
  ['&#64;octocat &amp; R & D', '\\&#&#8203;64;octocat \\&amp; R & D'],
  ['[a](b) ![c](d) ~e~ $f$', '\\[a\\](b) !\\[c\\](d) \\~e\\~ \\$f\\$'],
  ['# no heading', '\\# no heading'],
  ['- no list', '\\- no list'],
  ['1. no list', '1\\. no list'],
  ['8.76 s of -5 % @ 1980 MHz', '8.76 s of -5 % @ 1980 MHz'],
])('in Markdown %j mentions nobody and becomes neither a link nor structure', (text, written) => {
  expect(markdownOf([notice(text)])).toBe(`${written}\n`);
});
