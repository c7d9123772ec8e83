import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parseSanitizerReport, type SanitizerError } from './sanitizer-report.ts';

const recorded = (name: string): SanitizerError[] =>
  parseSanitizerReport(readFileSync(new URL(`recorded/sm_90.${name}.txt`, import.meta.url), 'utf8').split('\n'));
const plain = ({ text: _text, ...error }: SanitizerError): Omit<SanitizerError, 'text'> => error;

test('memcheck reports a write past a tensor with thread and line', () => {
  expect(recorded('memcheck.out_of_bounds').map(plain)).toEqual([
    {
      title: 'Invalid __global__ write of size 2 bytes',
      places: [{ file: 'out_of_bounds.cu', line: 15 }],
      thread: [63, 0, 0],
      block: [1, 3, 0],
    },
  ]);
});

test('a memcheck report of a misaligned read gives its size, place and thread, and says that it is misaligned', () => {
  const [first] = recorded('memcheck.misaligned_address');
  expect(plain(first!)).toEqual({
    title: 'Invalid __global__ read of size 4 bytes',
    places: [{ file: 'misaligned_address.cu', line: 11 }],
    thread: [0, 0, 0],
    block: [0, 0, 0],
  });
  expect(first!.text).toContain('is misaligned');
});

test('racecheck reports both sides of a race, each source line once', () => {
  expect(plain(recorded('racecheck.missing_syncthreads')[0]!)).toEqual({
    title: 'Race reported between Write access',
    places: [
      { file: 'missing_syncthreads.cu', line: 10 },
      { file: 'attend_row.cuh', line: 29 },
    ],
  });
});

test('synccheck reports a barrier that some threads do not reach', () => {
  const [first] = recorded('synccheck.divergent_barrier');
  expect(first!.title).toBe('Barrier error detected. Divergent thread(s) in warp.');
  expect(first!.places).toEqual([{ file: 'divergent_barrier.cu', line: 11 }]);
});

test('a report without findings has no errors', () => {
  expect(recorded('initcheck.unwritten_output')).toEqual([]);
});
