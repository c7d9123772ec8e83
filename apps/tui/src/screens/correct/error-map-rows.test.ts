import { create } from '@bufbuild/protobuf';
import { CaseResultSchema, ToleranceSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import { insideOf } from '../../present/cells/frame.ts';
import { reduce } from '../../state/app-reducer.ts';
import { initialState, type AppState } from '../../state/app-state.ts';
import {
  errorsOf,
  headCount,
  movedCursor,
  nextHead,
  selectedMap,
  worstBlock,
  type CellBlocks,
} from '../../state/error-map.ts';
import { SAMPLE_JOB, SAMPLE_START_MS, sampleEvents } from '../../testing/sample-job.ts';
import { focusedPane } from '../chrome/layout.ts';
import { screenOf } from '../chrome/message.ts';
import { cellOfMap } from './correctness.ts';
import { cursorFacts, errorMapRows } from './error-map-rows.ts';

const shape = { batch: 2, heads: 3, sequenceLength: 64, headDim: 32, causal: false };
const index = (batch: number, head: number, row: number, column: number): number =>
  ((batch * 3 + head) * 64 + row) * 32 + column;
const blocks = 4 * 4;
const filled = <Value>(value: Value, at: number, special: Value): Value[] =>
  Array.from({ length: blocks }, (_, block) => (block === at ? special : value));
// Block (2, 1): rows 32..47, columns 8..15.
const result = create(CaseResultSchema, {
  shape,
  worst: { batch: 1, head: 2, row: 37, column: 13, got: -4.0703125, want: -4.07231 },
  errorMap: {
    rows: 4,
    columns: 4,
    blockRows: 16,
    blockColumns: 8,
    maxAbsError: filled(0, 9, 0.002),
    worstIndex: filled(0, 9, index(1, 2, 37, 13)),
    worstGot: filled(1, 9, -4.0703125),
    worstWant: filled(1, 9, -4.07231),
    tileRows: 32,
  },
});
const map = result.errorMap!;
const BLOCK = { rows: 1, columns: 1 };
const facts = (
  cursor: { row: number; column: number },
  of = result,
  tolerance = create(ToleranceSchema, { absolute: 1e-4, relative: 1e-4 }),
) =>
  cursorFacts(of, of.errorMap!, { cursor, cell: BLOCK, width: 120, tolerance, fragments: true }).map((row) =>
    rowText(row).trim(),
  );

test('the cursor shows its block, element, both values with their difference, and the tile with its fragment', () => {
  expect(worstBlock(result, map)).toEqual({ row: 2, column: 1 });
  expect(facts({ row: 2, column: 1 })).toEqual([
    '▸ s32..47 d8..15  largest error 2.00e-3',
    'b1 h2 s37 d13: got -4.0703, want -4.0723 (off by 2.00e-3)',
    'row 5 of tile 1 (s32..63) of tiles 0..1, fragment m16n8 (0, 1)',
  ]);
});

test.each([
  [80, 24],
  [100, 30],
  [120, 34],
  [120, 36],
  [120, 40],
  [200, 60],
])('entering the map at %dx%d makes its cells finer or leaves them as they are', (columns, rows) => {
  const events = sampleEvents();
  const runner = { label: '', embedded: true };
  const started = reduce(initialState({ runner, columns, rows, now: SAMPLE_START_MS }), {
    type: 'attach',
    job: SAMPLE_JOB,
  });
  const before = reduce(
    events.reduce((state, event) => reduce(state, { type: 'job-event', event }), started),
    { type: 'show', view: 'correct' },
  );
  const after = reduce(before, { type: 'map-cursor', cursor: { row: 0, column: 0 } });
  const cellIn = (state: AppState): CellBlocks =>
    cellOfMap(state, selectedMap(state)!, insideOf(focusedPane(screenOf(state))));
  expect(cellIn(after).rows).toBeLessThanOrEqual(cellIn(before).rows);
  expect(cellIn(after).columns).toBeLessThanOrEqual(cellIn(before).columns);
});

test('the cursor counts the elements outside the tolerance in its cell, over all heads', () => {
  const counted = create(CaseResultSchema, {
    ...result,
    errorMap: { ...map, outputDims: [2n, 3n, 56n, 32n], outside: filled(0n, 9, 40n) },
  });
  // Six heads; the last block of rows has 8 of 16.
  const tall = { cell: { rows: 2, columns: 1 }, cursor: { row: 2, column: 1 } };
  const [first] = cursorFacts(counted, counted.errorMap!, {
    ...tall,
    width: 120,
    tolerance: undefined,
    fragments: false,
  });
  expect(rowText(first!)).toBe('▸ s32..55 d8..15  largest error 2.00e-3  40 of 1,152 elements beyond the tolerance');
});

test('elements outside the tolerance are marked, and those inside are not', () => {
  const role = (absolute: number) =>
    cursorFacts(result, map, {
      cursor: { row: 2, column: 1 },
      cell: BLOCK,
      width: 120,
      tolerance: create(ToleranceSchema, { absolute, relative: 0 }),
      fragments: false,
    })[1]?.at(-1)?.role;
  expect([role(1e-3), role(1e-2)]).toEqual(['bad', 'text']);
});

test('if a result has only the overall worst element, its block shows that element and the other blocks show a note', () => {
  const old = create(CaseResultSchema, {
    shape,
    worst: result.worst!,
    errorMap: { rows: 4, columns: 4, blockRows: 16, blockColumns: 8, maxAbsError: map.maxAbsError },
  });
  expect(facts({ row: 2, column: 1 }, old)[1]).toMatch(/^b1 h2 s37 d13/);
  expect(facts({ row: 0, column: 0 }, old).slice(1)).toEqual([
    'no element error is available for this block',
    'fragment m16n8 (0, 0)',
  ]);
});

test('the cursor stays in the map', () => {
  expect([
    movedCursor({ row: 0, column: 3 }, map, { rows: -1, columns: 1 }),
    movedCursor({ row: 2, column: 2 }, map, { rows: Infinity }),
  ]).toEqual([
    { row: 0, column: 3 },
    { row: 3, column: 2 },
  ]);
});

test('if a cell stands for several blocks, the cursor moves by cells and shows the worst block of its cell', () => {
  const cell = { rows: 2, columns: 3 };
  expect([
    movedCursor({ row: 2, column: 1 }, map, { cell }),
    movedCursor({ row: 0, column: 0 }, map, { rows: 1, columns: 1, cell }),
    movedCursor({ row: 2, column: 3 }, map, { rows: 1, columns: 1, cell }),
  ]).toEqual([
    { row: 2, column: 0 },
    { row: 2, column: 3 },
    { row: 2, column: 3 },
  ]);
  const [title, element] = cursorFacts(result, map, {
    cursor: { row: 2, column: 0 },
    cell,
    width: 120,
    tolerance: undefined,
    fragments: false,
  }).map((row) => rowText(row).trim());
  expect([title, element?.slice(0, 12)]).toEqual(['▸ s32..63 d0..23  largest error 2.00e-3', 'b1 h2 s37 d1']);
});

const heads = create(CaseResultSchema, {
  ...result,
  errorMap: {
    ...map,
    headMaxAbsError: Array.from({ length: 2 * 3 * blocks }, (_, at) => (Math.floor(at / blocks) === 5 ? 0.002 : 1e-4)),
  },
});

test('the head keys step through the heads of the map and the map of all heads', () => {
  const many = heads.errorMap!;
  expect(headCount(many)).toBe(6);
  expect([nextHead(many, undefined, 1), nextHead(many, 5, 1), nextHead(many, undefined, -1)]).toEqual([
    0,
    undefined,
    5,
  ]);
  expect([errorsOf(many, 4)[9], errorsOf(many, 5)[9], errorsOf(many, undefined)[9]]).toEqual(
    [1e-4, 0.002, 0.002].map((error) => expect.closeTo(error, 6) as number),
  );
  const drawn = (head: number | undefined) =>
    errorMapRows(heads, many, { width: 60, height: 8, cursor: undefined, head, tolerance: undefined }).map(rowText);
  expect([drawn(undefined)[0], drawn(5)[0]]).toEqual([
    'all 6 heads  [ ] choose a head',
    'batch 1 head 2  [ ] choose a head',
  ]);
  // Only head 5 has the worst element.
  expect([drawn(5).at(-1), drawn(4).at(-1)].map((legend) => legend?.includes('X closest to its limit'))).toEqual([
    true,
    false,
  ]);
});

test('the legend explains only marks in the map: an all-NaN map has neither a worst cell nor a range', () => {
  const nan = create(CaseResultSchema, {
    ...result,
    errorMap: { ...map, maxAbsError: map.maxAbsError.map(() => NaN) },
  });
  const legend = errorMapRows(nan, nan.errorMap!, {
    width: 60,
    height: 8,
    cursor: undefined,
    head: undefined,
    tolerance: undefined,
  }).at(-1)!;
  expect(rowText(legend)).toBe('16 rows x 8 columns a cell, N NaN or Inf');
});

test('rows of an output with other dimensions than attention are not called s', () => {
  const labels = (output: string): string[] =>
    errorMapRows(
      { ...result, output },
      { ...map, outputDims: [7n, 1n, 64n, 32n] },
      { width: 60, height: 8, cursor: undefined, head: undefined, tolerance: undefined },
    )
      .map(rowText)
      .filter((text) => !text.includes('a cell'))
      .map((text) => text.trim().split(' ')[0]!)
      .filter((label) => /^s?\d+$/.test(label))
      .slice(-4);
  expect([labels(''), labels('O')]).toEqual([
    ['s0', 's16', 's32', 's48'],
    ['0', '16', '32', '48'],
  ]);
});
