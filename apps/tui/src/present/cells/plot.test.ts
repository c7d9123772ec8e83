import fc from 'fast-check';
import stringWidth from 'string-width';
import { expect, test } from 'vitest';
import { bar, labelledBars, sparkline } from './bars.ts';
import { cutCells, padCells, sanitize, wrapCells } from './cell-text.ts';
import { frame } from './frame.ts';
import { heatLevel, blocksInCell, heatMap } from './heatmap.ts';
import { histogram, rebin } from './histogram.ts';
import { HEAT_LEVELS, fitRow, rowText, rowWidth, run, windowStart, type Row } from './row.ts';
import { fitParts, table } from './table.ts';
import { paint } from './theme.ts';
import { type ColorDepth } from './style.ts';

const lines = (rows: readonly Row[]): string[] => rows.map(rowText);
const anyText = fc.string({ unit: 'grapheme', maxLength: 60 }).map(sanitize);

test('a histogram is drawn in 40x7 cells', () => {
  const counts = [0, 1, 4, 9, 16, 20, 14, 8, 5, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1];
  const marks = [
    { label: 'p50', value: 55 },
    { label: 'p90', value: 59 },
    { label: 'p99', value: 69 },
  ];
  expect(
    lines(histogram({ low: 50, binWidth: 1, counts, underflow: 0, overflow: 3 }, { width: 40, height: 7, marks })),
  ).toEqual([
    '        ▂▂██                            ',
    '        ████▆▆                          ',
    '      ▆▆██████▅▅                        ',
    '  ▂▂▆▆████████████▅▅▃▃▂▂              ▂▂',
    '──────────┴───────┴──────────────────┴──',
    '          p50     p90                p99',
    '50.00 us      60.00 us       70.00 us >3',
  ]);
});

test('a heat map in 30x6 cells shades errors by decade, marks the worst block and NaN, and has a legend', () => {
  const values = [0, 1e-4, 1e-3, 1e-2, 0, 0, 0.5, Number.NaN];
  expect(
    lines(
      heatMap(
        { rows: 2, columns: 4, blockRows: 16, blockColumns: 16, values },
        { width: 30, height: 6, worst: { row: 16, column: 32 } },
      ),
    ),
  ).toEqual([
    '      d0                   d63',
    's0                ......======',
    's16                 X     N   ',
    '16 rows x 16 columns a cell',
    '<= 5.00e-4 to 5.00e-1 (log)',
    'X worst, N NaN or Inf',
  ]);
});

test('the legend of a heat map explains every mark in it, over several rows or in short words', () => {
  const map = { rows: 2, columns: 4, blockRows: 16, blockColumns: 16, values: [0, 1e-4, 1e-3, 1e-2, 0, 0, 0.5, NaN] };
  const beyond = map.values.map((value) => value > 1e-3);
  const legend = (width: number, height: number): string[] => {
    const worst = { row: 16, column: 32 };
    return lines(heatMap({ ...map, beyond }, { width, height, worst, worstWords: 'farthest beyond its limit' })).slice(
      3,
    );
  };
  expect(legend(44, 8)).toEqual([
    '16 rows x 16 columns a cell',
    '<= 5.00e-4 to 5.00e-1 (log)',
    'X farthest beyond its limit, N NaN or Inf',
    '! beyond the tolerance',
  ]);
  expect(legend(44, 6)).toEqual([
    '<= 5.00e-4 to 5.00e-1 (log)',
    'X farthest beyond its limit, N NaN or Inf',
    '! beyond the tolerance',
  ]);
  expect(legend(44, 4)).toEqual(['X worst, N NaN, ! too far']);
});

test('a cell with few elements beyond the tolerance has their share in tenths, and one with more than nine tenths "!"', () => {
  const blocks = { rows: 2, columns: 4, blockRows: 32, blockColumns: 16, outputDims: [1, 2, 48, 64] };
  // Two heads with 32 or 16 rows of 16 columns: one wrong row is 3 % or 6 % of the block.
  const outside = [32, 103, 0, 1024, 32, 512, 400, 0];
  const map = { ...blocks, values: outside, outside };
  const drawn = (height: number): string[] =>
    lines(heatMap(map, { width: 30, height })).map((line) =>
      line
        .slice(6)
        .replaceAll(/[ .:\-=+*#%@]+/g, ' ')
        .trim(),
    );
  expect(drawn(7).slice(1, 3)).toEqual(['1 2 !', '1 ! 8']);
  // Merged cells add their elements: 64 of 1,536.
  expect(drawn(3).slice(1, 2)).toEqual(['1 5 3 7']);
  expect(
    lines(heatMap(map, { width: 60, height: 7 }))
      .slice(3)
      .join(' '),
  ).toContain('1-9 tenths beyond the tolerance, ! more');
});

test('a heat map of an output without four dimensions has indices without letters', () => {
  const values = [0, 1e-4, 1e-3, 1e-2, 0, 0, 0.5, 1];
  const map = { rows: 2, columns: 4, blockRows: 16, blockColumns: 16, outputDims: [32, 64], values };
  expect(lines(heatMap(map, { width: 30, height: 5 })).slice(0, 3)).toEqual([
    '      0                     63',
    expect.stringMatching(/^0 {5}/),
    expect.stringMatching(/^16 {4}/),
  ]);
});

test('a cell with a background color has no shading characters, but keeps its mark', () => {
  const rows = heatMap(
    { rows: 1, columns: 2, blockRows: 16, blockColumns: 16, values: [1, 0.5] },
    { width: 30, height: 3, worst: { row: 0, column: 0 } },
  );
  const painted = (colors: ColorDepth): string =>
    paint(rows[1]!, { colors, ascii: false }).replace(/\u001b\[[\d;]*m/g, '');
  expect([painted('truecolor'), painted('256')].map((text) => text.slice(6).trim())).toEqual(['X', 'X']);
  expect(painted('16').slice(6)).toMatch(/X +[#%@*+=]{6}/);
});

test('a heat map merges blocks that do not fit, and keeps the largest error and every NaN', () => {
  const values = new Array<number>(64 * 64).fill(1e-3);
  values[100] = 7;
  values[3000] = Number.NaN;
  const rows = heatMap({ rows: 64, columns: 64, blockRows: 8, blockColumns: 1, values }, { width: 22, height: 10 });
  expect(rows.every((row) => rowWidth(row) <= 22)).toBe(true);
  expect(rows.flat().filter(({ heat }) => heat === HEAT_LEVELS - 1)).toHaveLength(1);
  expect(rows.flat().filter(({ role }) => role === 'bad')).toHaveLength(1);
});

test('the bar of a single sample is thin instead of filling the plot', () => {
  expect(
    rowText(
      histogram({ low: 5, binWidth: 1, counts: [1], underflow: 0, overflow: 0 }, { width: 40, height: 4 })[0] ?? [],
    ),
  ).toBe(`${'█'.repeat(8)}${' '.repeat(32)}`);
});

test('labelled bars are drawn in 30 cells', () => {
  expect(
    lines(
      labelledBars(
        [
          { label: 'barrier', value: 4, text: '4' },
          { label: 'mio throttle', value: 1.5, text: '1.5' },
        ],
        { width: 30, full: 4 },
      ),
    ),
  ).toEqual(['barrier      █████████████   4', 'mio throttle ████▉         1.5']);
});

test('a frame is drawn in 40x4 cells', () => {
  expect(
    lines(
      frame({ title: '3 Latency', badge: 'SIMULATED', remark: '1 of 2', focused: true }, [[run('x')]], {
        width: 40,
        height: 4,
      }),
    ),
  ).toEqual([
    '╭─ 3 Latency  SIMULATED ───────────────╮',
    '│ x                                    │',
    '│                                      │',
    '╰───────────────────────────── 1 of 2 ─╯',
  ]);
});

test('a table shortens the columns that may be shortened, then drops columns by rank', () => {
  const columns = [
    { title: 'case', cell: () => '2x8x512x64 causal', shrinkTo: 6 },
    { title: 'max', align: 'right' as const, cell: () => '4.9e-4' },
    { title: 'rms', align: 'right' as const, drop: 1, cell: () => '2e-5' },
    { title: 'time', align: 'right' as const, drop: 2, cell: () => '0.6 s' },
  ];
  const at = (width: number): string[] => {
    const { header, rows } = table(columns, [0], width);
    return lines([header, ...rows]);
  };
  expect([at(60), at(26), at(15)]).toEqual([
    ['case                  max   rms   time', '2x8x512x64 causal  4.9e-4  2e-5  0.6 s'],
    ['case             max   rms', '2x8x512x64 …  4.9e-4  2e-5'],
    ['case        max', '2x8x51…  4.9e-4'],
  ]);
});

test('columns without any value are dropped before others of a lower rank', () => {
  const columns = [
    { title: 'case', cell: ({ name }: { name: string }) => name },
    { title: 'p90', drop: 5, cell: () => '80.35 ms' },
    { title: 'of roof', drop: 3, cell: () => '-' },
  ];
  expect(table(columns, [{ name: '2x8x512x64' }], 22).titles).toEqual(['case', 'p90']);
});

test('a column without any value is dropped before a name is shortened', () => {
  const columns = [
    { title: 'kernel', cell: ({ name }: { name: string }) => name, shrinkTo: 6 },
    { title: 'regs', drop: 1, cell: ({ regs }: { regs: string }) => regs },
  ];
  const titles = (regs: string): string[] => table(columns, [{ name: 'a kernel', regs }], 12).titles;
  expect([titles('-'), titles('64')]).toEqual([['kernel'], ['kernel', 'regs']]);
});

test('the column that readers need most is cut last, wherever it is', () => {
  const columns = [
    { title: 'case', cell: () => '4x16x2048x64c' },
    { title: 'A/B', cell: () => '1.0712 [1.0688, 1.0735]' },
    { title: 'B is', cell: () => 'no difference shown', cutLast: true },
  ];
  const { rows } = table(columns, [0], 40);
  expect(rowText(rows[0]!)).toContain('no difference shown');
  expect(rowWidth(rows[0]!)).toBeLessThanOrEqual(40);
});

test('the parts of a row keep their order; the least important parts are dropped first, and a long form never displaces another part', () => {
  const parts = [
    { rank: 2, forms: [[run('fa-tui')]] },
    { rank: 0, forms: [[run('connected to runner')], [run('up')]] },
    { rank: 1, forms: [[run('flashcore_v6')], [run('v6')]] },
  ];
  const at = (width: number): string => rowText(fitParts(parts, width));
  expect([at(41), at(24), at(14), at(6), at(2)]).toEqual([
    'fa-tui  connected to runner  flashcore_v6',
    'fa-tui  up  flashcore_v6',
    'fa-tui  up  v6',
    'up  v6',
    'up',
  ]);
});

const counts = fc.array(fc.nat(500), { minLength: 1, maxLength: 300 });

test('merging bins loses no samples, and all rows have the same width', () => {
  fc.assert(
    fc.property(counts, fc.integer({ min: 24, max: 200 }), fc.integer({ min: 4, max: 20 }), (bins, width, height) => {
      const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
      expect(sum(rebin(bins, width))).toBe(sum(bins));
      const rows = histogram(
        { low: 10, binWidth: 0.5, counts: bins, underflow: 0, overflow: 0 },
        { width, height, marks: [{ label: 'p50', value: 12 }] },
      );
      expect(rows).toHaveLength(height);
      for (const row of rows) expect(stringWidth(rowText(row))).toBe(width);
      // The tallest bin reaches the top unless all are empty.
      if (sum(bins) > 0) expect(rowText(rows[0] ?? [])).toMatch(/█/);
    }),
  );
});

test('padded, cut and wrapped texts have exactly the requested width, as string-width measures it', () => {
  fc.assert(
    fc.property(anyText, fc.integer({ min: 1, max: 60 }), (content, width) => {
      expect(stringWidth(padCells(content, width))).toBe(width);
      expect(stringWidth(cutCells(content, width))).toBeLessThanOrEqual(width);
      if (width > 1) for (const line of wrapCells(content, width)) expect(stringWidth(line)).toBeLessThanOrEqual(width);
      expect(rowWidth(fitRow([run(content, 'good'), run('tail')], width))).toBe(width);
    }),
  );
});

test('frames and bars have exactly the requested size', () => {
  fc.assert(
    fc.property(
      anyText,
      anyText,
      fc.integer({ min: 24, max: 120 }),
      fc.integer({ min: 3, max: 12 }),
      fc.double({ min: -1, max: 2, noNaN: true }),
      (title, remark, width, height, share) => {
        const rows = frame({ title, remark, badge: 'SIMULATED' }, [[run(title + remark)]], { width, height });
        expect(rows).toHaveLength(height);
        for (const row of rows) expect(rowWidth(row)).toBe(width);
        expect(stringWidth(bar(share, width))).toBe(width);
      },
    ),
  );
});

const SCALE = { least: 1e-3, largest: 1 };

test('heat levels rise with the error, over three decades', () => {
  expect([0, 1e-9, 1e-3, 1e-1, 1].map((value) => heatLevel(value, SCALE))).toEqual([0, 0, 0, 21, HEAT_LEVELS - 1]);
  fc.assert(
    fc.property(fc.double({ min: 0, max: 1, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true }), (a, b) => {
      expect(heatLevel(Math.min(a, b), SCALE)).toBeLessThanOrEqual(heatLevel(Math.max(a, b), SCALE));
    }),
  );
});

test('a window of rows contains the selected rows and nothing beyond the ends of the list', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 200 }),
      fc.nat(199),
      fc.integer({ min: 1, max: 50 }),
      (count, place, height) => {
        const from = place % count;
        const start = windowStart({ from, to: from + 1, count, height });
        expect(start).toBeLessThanOrEqual(from);
        expect(start + height).toBeGreaterThan(from);
        expect(start).toBeLessThanOrEqual(Math.max(0, count - height));
      },
    ),
  );
});

test('escape sequences and control characters from a compiler do not reach the screen', () => {
  expect(
    sanitize('\u001b[1;31merror:\u001b[0m\tbad\u0007 \u001b]8;;http://x\u0007link\u001b]8;;\u0007\u001b[2J\rend'),
  ).toBe('error:  bad linkend');
});

test('a sparkline shows the last values', () => {
  expect(sparkline([1, 2, 3, 2, 1], 4)).toBe('▅█▅▁');
});

test('a cell of an error map has a power of two of blocks, so that it divides tiles, and a larger map never has coarser cells', () => {
  const data = { rows: 64, columns: 16 };
  const rows = [4, 8, 14, 20, 30, 66].map((height) => blocksInCell(data, { width: 60, height }).rows);
  expect(rows).toEqual([32, 16, 8, 4, 4, 1]);
});

test('the values of an axis have the unit of the median above it', () => {
  const data = { low: 610.3, binWidth: 250, counts: [3, 1, 1], underflow: 0, overflow: 0 };
  const axis = (marks?: { label: string; value: number }[]): string =>
    lines(histogram(data, { width: 40, height: 5, ...(marks && { marks }) }))
      .at(-1)!
      .trim();
  expect(axis([{ label: 'p50', value: 690.2 }])).toMatch(/^610\.3 us .*1,?360(\.\d)? us$/);
  expect(axis()).toMatch(/ms$/);
});
