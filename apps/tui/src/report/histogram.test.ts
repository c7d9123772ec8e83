import { create } from '@bufbuild/protobuf';
import { HistogramSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { PLAIN } from './fixtures.ts';
import { histogramLines } from './histogram.ts';

const histogram = create(HistogramSchema, { lowUs: 50, binWidthUs: 1, counts: [1, 4, 8, 3, 0, 1000], overflow: 2 });

test('a histogram has six rows, an axis, and says what it leaves out', () => {
  expect(histogramLines(histogram, PLAIN)).toEqual([
    '                        ████',
    '                        ████',
    '                        ████',
    '                        ████',
    '                        ████',
    '    ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁    ████',
    '    ┴───────────┴──────────┴',
    '    50.00       53.00      55.75 us',
    '    not drawn: 2 above the range',
  ]);
});

test('in ASCII it uses no other characters', () => {
  const text = histogramLines(histogram, { ...PLAIN, unicode: false }).join('');
  expect(/^[\x20-\x7e]*$/.test(text)).toBe(true);
});

test.each([1, 7, 60, 74, 75, 500])('%i bins fit into 80 columns', (bins) => {
  const lines = histogramLines(
    create(HistogramSchema, { lowUs: 1e6, binWidthUs: 1e4, counts: Array.from({ length: bins }, (_, i) => i + 1) }),
    PLAIN,
  );
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
  expect(lines.length).toBe(8);
});

test('no bins, no lines', () => {
  expect(histogramLines(create(HistogramSchema), PLAIN)).toEqual([]);
});
