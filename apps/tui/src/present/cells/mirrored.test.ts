import fc from 'fast-check';
import { expect, test } from 'vitest';
import { mirroredHistogram } from './mirrored.ts';
import { rowText, rowWidth } from './row.ts';

test('two distributions share one axis, and their medians are marked', () => {
  const upper = { low: 50, binWidth: 1, counts: [1, 4, 8, 4, 1], underflow: 0, overflow: 0 };
  const lower = { low: 53, binWidth: 1, counts: [2, 8, 4, 1, 0, 0, 0], underflow: 0, overflow: 0 };
  expect(
    `\n${mirroredHistogram({ upper, lower }, { width: 40, height: 8, medians: [52.5, 54.5] })
      .map((row) => rowText(row).trimEnd())
      .join('\n')}\n`,
  ).toMatchInlineSnapshot(`
    "
    8│        ████
     │    ▄▄▄▄████▄▄▄▄
     │▃▃▃▃████████████▃▃▃
    0┼─────────┴───────┬────────────────────
     │            ▀▀▀▀███████▀▀▀▀
     │                ███▀▀▀▀
    8│                ███
      50.00 us       55.00 us       60.00 us
    "
  `);
});

test('the last bin is visible even if there are one or two more bins than cells', () => {
  const bin = (low: number, count: number) => ({ low, binWidth: 0.001, counts: [count], underflow: 0, overflow: 0 });
  const rows = mirroredHistogram({ upper: bin(0, 0), lower: bin(0.029, 1) }, { width: 30, height: 4, medians: [0, 0] });
  expect(rows.map(rowText).join('\n')).toMatch(/[▔▀█]/);
});

test('any two histograms fill exactly the given size and show every count above 0', () => {
  const data = fc.record({
    low: fc.double({ min: 0, max: 1e6, noNaN: true }),
    binWidth: fc.double({ min: 1e-3, max: 1e4, noNaN: true }),
    counts: fc.array(fc.nat(1000), { minLength: 1, maxLength: 64 }),
    underflow: fc.constant(0),
    overflow: fc.constant(0),
  });
  fc.assert(
    fc.property(
      data,
      data,
      fc.integer({ min: 30, max: 160 }),
      fc.integer({ min: 4, max: 24 }),
      (upper, lower, width, height) => {
        const rows = mirroredHistogram({ upper, lower }, { width, height, medians: [upper.low, lower.low] });
        expect(rows.map(rowWidth)).toEqual(rows.map(() => width));
        expect(rows.length).toBe(height);
        const drawn = rows.map(rowText).join('\n');
        if (upper.counts.some((count) => count > 0)) expect(drawn).toMatch(/[▁▂▃▄▅▆▇█]/);
        if (lower.counts.some((count) => count > 0)) expect(drawn).toMatch(/[▔▀█]/);
      },
    ),
    { numRuns: 200 },
  );
});

test('two samples are no wall of blocks', () => {
  const few = { low: 50, binWidth: 1, counts: [2], underflow: 0, overflow: 0 };
  const rows = mirroredHistogram({ upper: few, lower: few }, { width: 20, height: 26, medians: [50, 50] }).map(rowText);
  expect(rows.filter((row) => /[▀█]/.test(row))).toHaveLength(8);
  expect(rows.filter((row) => row.startsWith('2│'))).toEqual(Array.from({ length: 2 }, () => `2│${'█'.repeat(18)}`));
});
