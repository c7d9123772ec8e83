import fc from 'fast-check';
import { expect, test } from 'vitest';
import { rowText, rowWidth } from '../../present/cells/row.ts';
import { LogBuffer } from '../../state/log-buffer.ts';
import { LogSearch } from '../../state/log-search.ts';
import { logRows, scrolledLog } from './log.ts';

const buffer = (texts: readonly string[]): LogBuffer => {
  const log = new LogBuffer();
  for (const text of texts) log.append({ time: 0, source: 'nvcc', text, tone: 'plain' });
  return log;
};
const FOLLOWING = { follow: true, top: 0, wrap: true, left: 0, query: '', filter: false };
const numbered = (count: number): string[] => Array.from({ length: count }, (_, index) => `line ${index}`);

test('following shows the last lines, and long lines wrap without losing text', () => {
  const rows = logRows(
    { log: buffer([...numbered(50), 'x'.repeat(90)]), search: undefined, position: FOLLOWING },
    { width: 60, height: 6 },
  );
  expect(rows.map((row) => rowText(row).trim())).toEqual([
    '00:00:00 nvcc   line 47',
    '00:00:00 nvcc   line 48',
    '00:00:00 nvcc   line 49',
    `00:00:00 nvcc   ${'x'.repeat(44)}`,
    'x'.repeat(44),
    'xx',
  ]);
});

test('filtering shows only matching lines, with the matches marked', () => {
  const log = buffer(['a spill', 'nothing', 'another spill']);
  const search = new LogSearch('spill');
  search.advance(log);
  const rows = logRows(
    { log, search, position: { ...FOLLOWING, query: 'spill', filter: true } },
    { width: 60, height: 9 },
  );
  expect(rows.map((row) => row.filter(({ role }) => role === 'match').map(({ text }) => text))).toEqual([
    ['spill'],
    ['spill'],
  ]);
});

test('a filter shows all matching lines that fit, although the first line of the window is the last of them', () => {
  const log = buffer(['a spill', 'nothing', 'another spill', 'end']);
  const search = new LogSearch('spill');
  search.advance(log);
  const position = { ...FOLLOWING, follow: false, top: 2, query: 'spill', filter: true };
  expect(
    logRows({ log, search, position }, { width: 60, height: 9 }).map((row) => rowText(row).slice(16).trim()),
  ).toEqual(['a spill', 'another spill']);
});

test('a hit is shown with lines before it, and the last one does not leave the pane empty', () => {
  const log = buffer(numbered(100));
  const size = { width: 60, height: 9 };
  const shown = (top: number, isHit = true): string[] =>
    logRows({ log, search: undefined, position: { ...FOLLOWING, follow: false, top, isHit } }, size).map((row) =>
      rowText(row).slice(16).trim(),
    );
  expect(shown(50)).toEqual(numbered(56).slice(47));
  expect(shown(50, false)).toEqual(numbered(59).slice(50));
  expect(shown(99)).toEqual(numbered(100).slice(91));
  expect(shown(1)).toEqual(numbered(9));
  // Scrolling continues from the lines on the screen.
  const position = { ...FOLLOWING, follow: false, top: 50, isHit: true };
  expect(scrolledLog({ log, search: undefined, position }, 1, size)).toEqual({ follow: false, top: 48 });
});

test('scrolling up ends following, scrolling down never begins it, and both stay inside the log', () => {
  const log = buffer(numbered(100));
  const size = { width: 60, height: 10 };
  const up = scrolledLog({ log, search: undefined, position: FOLLOWING }, -1, size);
  expect(up).toEqual({ follow: false, top: 89 });
  const down = scrolledLog({ log, search: undefined, position: { ...FOLLOWING, ...up } }, 50, size);
  expect(down).toEqual({ follow: false, top: 90 });
  expect(scrolledLog({ log, search: undefined, position: { ...FOLLOWING, follow: false, top: 3 } }, -50, size)).toEqual(
    { follow: false, top: 0 },
  );
});

test('no row is wider than the pane, and there are never more rows than fit, whatever the text', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: 'grapheme', maxLength: 120 })),
      fc.integer({ min: 30, max: 140 }),
      fc.integer({ min: 1, max: 20 }),
      fc.boolean(),
      fc.boolean(),
      (texts, width, height, wrap, follow) => {
        const clean = texts.map((text) => text.replace(/\p{C}/gu, ''));
        const rows = logRows(
          { log: buffer(clean), search: undefined, position: { ...FOLLOWING, wrap, follow } },
          { width, height },
        );
        expect(rows.length).toBeLessThanOrEqual(height);
        for (const row of rows) expect(rowWidth(row)).toBeLessThanOrEqual(width);
      },
    ),
    { numRuns: 100 },
  );
});

test('cut lines can be read from any column on, with marks where more text follows', () => {
  const log = buffer(['0123456789'.repeat(6), 'short']);
  const at = (left: number): string[] =>
    logRows({ log, search: undefined, position: { ...FOLLOWING, wrap: false, left } }, { width: 36, height: 2 }).map(
      (row) => rowText(row).slice(16),
    );
  expect([at(0), at(25), at(45)]).toEqual([
    ['0123456789012345678…', 'short'],
    ['…678901234567890123…', ''],
    ['…67890123456789', ''],
  ]);
});
