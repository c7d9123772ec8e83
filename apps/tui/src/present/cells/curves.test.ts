import fc from 'fast-check';
import { expect, test } from 'vitest';
import stringWidth from 'string-width';
import { sampleStrip } from './bars.ts';
import { ecdf } from './ecdf.ts';
import { formatInUnit, formatPair } from '../numbers.ts';
import { heatMap } from './heatmap.ts';
import { roofAt, ridgeOf, roofline } from './roofline.ts';
import { rowText } from './row.ts';

const H200 = { peakTflops: 989, memoryGbPerSecond: 4800 };
const text = (rows: Parameters<typeof rowText>[0][]): string => rows.map((row) => rowText(row).trimEnd()).join('\n');

test('the roof is the lower of the two ceilings, and they meet at the ridge', () => {
  const ridge = ridgeOf(H200);
  expect(ridge).toBeCloseTo(206.04, 2);
  expect([roofAt(H200, 1), roofAt(H200, ridge), roofAt(H200, 4 * ridge)]).toEqual([4.8, expect.closeTo(989, 9), 989]);
});

test('the roofline plot has exactly the requested size, and its points are below the ceilings', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 30, max: 120 }),
      fc.integer({ min: 6, max: 30 }),
      fc.double({ min: 0.5, max: 5000, noNaN: true }),
      fc.double({ min: 0.001, max: 1, noNaN: true }),
      (width, height, intensity, share) => {
        const rows = roofline(
          { ...H200, points: [{ mark: '@', intensity, tflops: roofAt(H200, intensity) * share, role: 'warn' }] },
          { width, height },
        );
        expect(rows).toHaveLength(height);
        for (const row of rows) expect(stringWidth(rowText(row))).toBe(width);
        expect(text(rows)).toContain('@');
      },
    ),
  );
  expect(
    text(
      roofline(
        { ...H200, points: [{ mark: '@', intensity: 256, tflops: 154.3, role: 'warn' }] },
        { width: 50, height: 10 },
      ),
    ),
  ).toMatchSnapshot();
});

test('an ECDF fills exactly the requested size, even if samples lie above the bins', () => {
  const bins = { low: 10, binWidth: 1, counts: [10, 40, 40, 10], underflow: 0, overflow: 0 };
  expect(
    text(
      ecdf(
        [
          { data: bins, role: 'bar' },
          { data: { ...bins, low: 14 }, role: 'barAlternative' },
        ],
        { width: 40, height: 9 },
      ),
    ),
  ).toMatchSnapshot();
  fc.assert(
    fc.property(
      fc.array(fc.nat(50), { minLength: 1, maxLength: 60 }),
      fc.integer({ min: 12, max: 100 }),
      fc.integer({ min: 4, max: 20 }),
      (counts, width, height) => {
        const rows = ecdf([{ data: { ...bins, counts, overflow: 3 }, role: 'bar' }], { width, height });
        expect(rows).toHaveLength(height);
        for (const row of rows) expect(stringWidth(rowText(row))).toBe(width);
      },
    ),
  );
});

test('in the sample strip, a dropped sample is marked and does not stretch the scale', () => {
  expect(sampleStrip([10, 12, 0, 14], 10)).toEqual([
    { text: '▁▅', role: 'bar' },
    { text: '×', role: 'bad' },
    { text: '█', role: 'bar' },
  ]);
  expect(rowText(sampleStrip([1, 2, 3, 4], 2))).toBe('▁█');
});

test('actual and expected values are shown with enough digits to tell them apart', () => {
  expect([
    formatPair(-4.07031, -4.07231),
    formatPair(4.30078125, 4.298908715308533),
    formatPair(0.5, 0.5),
    formatPair(Number.NaN, 0.2918),
    formatPair(1, 1.0000001),
    formatPair(65504, 1.5),
  ]).toEqual([
    ['-4.0703', '-4.0723'],
    ['4.3008', '4.2989'],
    ['0.500', '0.500'],
    ['NaN', '0.2918'],
    ['1.00000000', '1.00000010'],
    ['65504.000', '1.500'],
  ]);
});

test('the word for a unit is singular if the value is 1', () => {
  expect([
    formatInUnit(1, 'CTAs'),
    formatInUnit(2, 'CTAs'),
    formatInUnit(1, 'registers'),
    formatInUnit(1, 'us'),
  ]).toEqual(['1 CTA', '2 CTAs', '1 register', '1.000 us']);
});

test('the block under the cursor of a heat map is in brackets and keeps its mark', () => {
  const data = {
    rows: 4,
    columns: 2,
    blockRows: 8,
    blockColumns: 8,
    values: [0, 1e-3, 1e-2, 1e-1, 1, Number.NaN, 0, 0],
  };
  expect(
    text(heatMap(data, { width: 14, height: 6, worst: { row: 16, column: 0 }, cursor: { row: 18, column: 3 } })),
  ).toMatchSnapshot();
  expect(text(heatMap(data, { width: 14, height: 6, cursor: { row: 18, column: 12 } }))).toContain('[N ]');
});
