import { expect, test } from 'vitest';
import { costliestLines, placesText } from './costly-lines.ts';

const lines = (...counts: number[]) => counts.map((count, index) => ({ place: `k.cu:${index + 1}`, count }));
const chosen = (wanted: number, ...counts: number[]): [number[], number] => {
  const { named, others } = costliestLines(lines(...counts), wanted);
  return [named.map(({ count }) => count), others];
};

test('lines that cost the same as the last named one are named as well, or counted if they are many', () => {
  expect(chosen(2, 5, 20, 20, 0, 20, 20)).toEqual([[20, 20, 20, 20], 0]);
  expect(chosen(2, 30, 20, 1000, 1)).toEqual([[1000, 30], 0]);
  expect(chosen(1, 7, 7, 7, 7, 7, 7, 7)).toEqual([[7], 6]);
  expect(chosen(2, 0)).toEqual([[], 0]);
});

test('several places in one file repeat only the line numbers', () => {
  expect(placesText(['k.cu:50', 'k.cu:51', 'k.cu:70'])).toBe('k.cu:50, 51 and 70');
  expect(placesText(['k.cu:50', 'rows.cuh:7'])).toBe('k.cu:50 and rows.cuh:7');
});
