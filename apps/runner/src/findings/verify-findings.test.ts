import type { Finding } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { describe, expect, test } from 'vitest';
import type { CaseReport, OutputReport, WrongKeys } from '../../worker/messages/verifying.ts';
import { caseFindings, placesText, smallerText } from './verify-findings.ts';

/** The findings about an output with these counts. */
function found(
  counts: Partial<Record<'mismatches' | 'nanCount' | 'infCount' | 'unwrittenCount', number>> & {
    worst?: object;
    wrongKeys?: WrongKeys;
  },
): Finding[] {
  const figures = {
    ...{ mismatches: 0, nanCount: 0, infCount: 0, unwrittenCount: 0, elements: 8n, maxAbsError: 0.5 },
    ...{ firstMismatches: [], errorMap: { outputDims: [1, 1, 1, 8] } },
    ...counts,
  };
  const { wrongKeys } = counts;
  const output = { name: 'O', figures, wrongKeys, beyondRounding: false, trivialNorm: false };
  const report = { outputs: [output as unknown as OutputReport], modified: [], straying: 0, isAttention: true };
  return caseFindings(report as unknown as CaseReport, parseShape('1x1x1x8'));
}

/** Their messages without the shape. */
const messages = (counts: Parameters<typeof found>[0]): string[] =>
  found(counts).map(({ message }) => message.slice('1x1x1x8: '.length));

test('verbs agree with their counts, and a kind of error that does not occur is not mentioned', () => {
  expect(
    [
      { mismatches: 1 },
      { mismatches: 3 },
      { mismatches: 4, nanCount: 4 },
      { mismatches: 1, infCount: 1 },
      { mismatches: 3, nanCount: 1, infCount: 2 },
      { mismatches: 1, unwrittenCount: 1 },
    ].flatMap(messages),
  ).toEqual([
    '1 of 8 elements is outside the tolerance; the largest error is 5.00e-1',
    '3 of 8 elements are outside the tolerance; the largest error is 5.00e-1',
    '4 of 8 elements are NaN',
    '1 of 8 elements is Inf',
    '1 of 8 elements is NaN, 2 of 8 elements are Inf',
    '1 of 8 elements was never written',
  ]);
});

test('the remedy for an output that no launch wrote differs from that for a few unwritten elements', () => {
  const remedies = (counts: Parameters<typeof found>[0]) => found(counts).map(({ remedy }) => remedy);
  expect(remedies({ mismatches: 8, unwrittenCount: 8 })).toEqual([
    'No launch wrote to O: compute its elements and store them; if the kernel does, check the order of `arguments` in kernel.yaml',
  ]);
  expect(remedies({ mismatches: 7, unwrittenCount: 7 })).toEqual([
    'Check the guards of the stores and the grid against the shape',
  ]);
});

test('a finding does not claim that the worst element has the largest error if another element has it', () => {
  const at = { batch: 0, head: 1, row: 2, column: 3, want: 1 };
  const text = (got: number): string => messages({ mismatches: 2, worst: { ...at, got } }).join();
  expect(text(1.5)).toMatch(/the largest error is 5\.00e-1 at b0 h1 s2 d3 \(got 1\.5\d*, want 1\.0*\)$/);
  expect(text(1.2)).toMatch(
    /the largest error is 5\.00e-1; the element at b0 h1 s2 d3 \(got 1\.2[^)]*\) is farthest beyond its limit/,
  );
});

test('a finding names the few rows or columns that all mismatches are in', () => {
  const of = (rows: number[], columns: number[], named = false): string =>
    placesText({ heads: [0], rows, columns, ofHeads: 1, ofRows: 333, ofColumns: 64 }, [1n, 1n, 333n, 64n], named);
  const all = (count: number): number[] => Array.from({ length: count }, (_, index) => index);
  expect([
    of(all(333), [57, 59, 61, 63]),
    of([320, 321, 322], all(64)),
    of([7], [3], true),
    of(
      all(333),
      all(16).map((index) => 4 * index),
      true,
    ),
    of(all(333), all(64)),
    of(all(333), [0, 1, 2, 5, 9, 17, 33, 60]),
  ]).toEqual([
    'columns d57, d59, d61 and d63',
    'rows s320 to s322',
    'row 7, column 3',
    'every 4th column from 0 to 60',
    '',
    '8 of 64 columns (d0 to d60)',
  ]);
});

test('a finding names the few heads that all mismatches are in', () => {
  const of = (heads: number[], [batches, perBatch]: [number, number]): string => {
    const extents = { ofHeads: batches * perBatch, ofRows: 333, ofColumns: 64 };
    const dims = [batches, perBatch, 333, 64].map(BigInt);
    return placesText({ heads, rows: [], columns: [], ...extents }, dims, false);
  };
  const all = (count: number, from = 0): number[] => Array.from({ length: count }, (_, index) => from + index);
  expect([
    of([3], [1, 8]),
    of([3, 11], [2, 8]),
    of([3], [2, 8]),
    of([3, 13], [2, 8]),
    of(all(8, 8), [2, 8]),
    of([2], [4, 1]),
    of([1, 2, 3, 9, 10, 20, 29], [4, 8]),
    of(all(9), [2, 8]),
    of([0], [1, 1]),
  ]).toEqual([
    'head h3',
    'head h3 of every batch',
    'head b0 h3',
    'heads b0 h3 and b1 h5',
    'batch b1',
    'batch b2',
    '7 of 32 heads, first b0 h1',
    '',
    '',
  ]);
});

test('the advice about number formats is given only for an error that is everywhere', () => {
  const remedyOf = (report: Partial<CaseReport>, output: Partial<OutputReport>): string => {
    const figures = {
      ...{ mismatches: 0, nanCount: 0, infCount: 0, unwrittenCount: 0, elements: 8n, maxAbsError: 0.5 },
      ...{ firstMismatches: [], rounding: { ratio: 33.5, limit: 2 }, errorMap: { outputDims: [2n, 8n, 512n, 64n] } },
    };
    const outputs = [{ name: 'O', figures, beyondRounding: true, ...output } as unknown as OutputReport];
    const whole = { outputs, modified: [], straying: 0, isAttention: true, ...report };
    return caseFindings(whole as unknown as CaseReport, parseShape('2x8x512x64'))[0]!.remedy;
  };
  const places = { rows: [], columns: [], ofHeads: 16, ofRows: 512, ofColumns: 64 };
  const everywhere = { mismatchPlaces: { ...places, heads: Array.from({ length: 16 }, (_, head) => head) } };
  expect([
    remedyOf({}, everywhere),
    remedyOf({ tooLargeToExplain: true }, { mismatchPlaces: { ...places, heads: [3, 11] } }),
    remedyOf({}, { ...everywhere, wrongKeys: { keys: [89], ofKeys: 512, change: { kind: 'weights', factor: 1.25 } } }),
  ]).toEqual([
    'Keep inputs and weights in the dtype of the tensors, and sums and logits in fp32: a format of 8 bits, small values left out and sums in fp16 look like this',
    'Look for what the kernel does differently in head h3 of every batch. This shape is too large to look for the mistake: verify with --shape 1x1x512x64',
    'This is the output where the weights of key 89 are 1.25 times the right ones: look at what the kernel does differently with this key',
  ]);
});

test('the hint of a wrong result names parts of attention only if the problem is attention', () => {
  const remedyOf = (isAttention: boolean): string => {
    const figures = { mismatches: 1, nanCount: 0, infCount: 0, unwrittenCount: 0, elements: 8n, maxAbsError: 0.5 };
    const output = { name: 'Y', figures: { ...figures, firstMismatches: [], errorMap: { outputDims: [8] } } };
    const report = { outputs: [output as unknown as OutputReport], modified: [], straying: 0, isAttention };
    return caseFindings(report as unknown as CaseReport, parseShape('rows=1,N=8'))[0]!.remedy;
  };
  expect(remedyOf(true)).toContain('whole rows to the running maximum and sum');
  expect(remedyOf(false)).toContain('whole rows to what is computed once a row');
});

describe('an error beyond rounding', () => {
  const message = (outputDims: bigint[], ratio = 217): string => {
    const figures = { mismatches: 0, nanCount: 0, infCount: 0, unwrittenCount: 0, elements: 8n, maxAbsError: 0.5 };
    const rounding = { ratio, limit: 2 };
    const output = { name: 'Y', figures: { ...figures, firstMismatches: [], rounding, errorMap: { outputDims } } };
    const outputs = [{ ...output, beyondRounding: true } as unknown as OutputReport];
    const report = { outputs, modified: [], straying: 0, isAttention: false };
    return caseFindings(report as unknown as CaseReport, parseShape('rows=5,N=333'))[0]!.message;
  };

  test('is given over as many rows as the case has, if they are few', () => {
    expect(
      [message([5n, 333n]), message([64n, 333n]), message([333n])].map((text) => /but (over .*?) the/.exec(text)?.[1]),
    ).toEqual(['over 5 rows', 'over 16 rows', 'over a row']);
  });

  test('never reads as the limit itself', () => {
    expect([217, 2.004, 2.0000001].map((ratio) => /is (\S+) times/.exec(message([333n], ratio))?.[1])).toEqual([
      '217',
      '2.004',
      '2.0000001',
    ]);
  });
});

test('an output of four dimensions whose rows are heads is not described by b, h, s and d', () => {
  const message = (outputDims: bigint[]): string => {
    const at = { batch: 1, head: 0, row: 0, column: 55, got: 1, want: 2 };
    const figures = { mismatches: 1, nanCount: 0, infCount: 0, unwrittenCount: 0, elements: 8n, maxAbsError: 1 };
    const output = { name: 'O', figures: { ...figures, worst: at, firstMismatches: [at], errorMap: { outputDims } } };
    const report = { outputs: [output as unknown as OutputReport], modified: [], straying: 0, isAttention: true };
    return caseFindings(report as unknown as CaseReport, parseShape('B=7,H=4,S=1,D=64'))[0]!.message;
  };
  // [B, H, S, D] and [B, S, H, D].
  expect(message([7n, 4n, 1n, 64n])).toContain(' at b1 h0 s0 d55 ');
  expect(message([7n, 1n, 4n, 64n])).toContain(' at O[1, 0, 0, 55] ');
});

test('a wrong output that is like a mutant, or the right one times a factor, gets that as its remedy', () => {
  const figures = {
    ...{ mismatches: 8, nanCount: 0, infCount: 0, unwrittenCount: 0, elements: 8n, maxAbsError: 0.5 },
    ...{ firstMismatches: [], errorMap: { outputDims: [1, 1, 1, 8] } },
  };
  const remedyOf = (factors: OutputReport['factors'], likeMutants: CaseReport['likeMutants'] = []): string => {
    const output = { name: 'O', figures, beyondRounding: false, trivialNorm: false, factors };
    const report = { outputs: [output as unknown as OutputReport], modified: [], straying: 0, isAttention: true };
    return caseFindings({ ...report, likeMutants } as unknown as CaseReport, parseShape('1x1x1x8'))[0]!.remedy;
  };
  expect([
    remedyOf(undefined, [{ name: 'scale_forgotten', about: 'logits are not divided by sqrt(D)' }]),
    remedyOf(undefined, [
      { name: 'a', about: 'one mistake' },
      { name: '', about: 'exp takes logits' },
    ]),
    remedyOf({ least: 0.5, most: 0.5 }),
    remedyOf({ least: 0.25, most: 2 }),
  ]).toEqual([
    'This is the output of the mutant scale_forgotten: logits are not divided by sqrt(D)',
    'This is the output of the mutant a: one mistake; or where exp takes logits',
    'Every element of the output is 0.500 times the right one: look for a factor that is missing or applied twice',
    'Each row of the output is the right one times a factor of its own, 0.250 to 2.00: look at what divides a row (the running sum) and at what rescales it',
  ]);
});

test('if a few mistreated keys explain a wrong output, the finding names the keys and the mistake', () => {
  const of = (keys: readonly number[], change?: WrongKeys['change'], ofKeys = 128): string =>
    found({ mismatches: 3, wrongKeys: { keys, ofKeys, change } })[0]!.remedy;
  const every4th = [96, 100, 104, 108, 112, 116, 120, 124];
  expect([
    of(every4th, { kind: 'logits', factor: 0.5 }),
    of([17], { kind: 'weights', factor: 2 }),
    of([120, 121, 122, 123], { kind: 'left-out' }),
    of([5], { kind: 'hidden' }),
    of([40, 41]),
    of([1, 2, 9, 17, 33, 60, 61]),
  ]).toEqual([
    'This is the output where the logits of every 4th key from 96 to 124 are 0.500 times the right ones: look at what the kernel does differently with these keys',
    'This is the output where the weights of key 17 are 2.00 times the right ones: look at what the kernel does differently with this key',
    'This is the output without keys 120 to 123: look at what skips or masks them',
    'This is the output where rows also see key 5, which is masked: look at the mask',
    'This is the output where the kernel treats only keys 40 and 41 wrongly: look at what it does differently with these keys',
    'This is the output where the kernel treats only 7 of 128 keys (1 to 61) wrongly: look at what it does differently with these keys',
  ]);
});

test('of a shape that is too large, a smaller one with the same form is named', () => {
  const shapes = ['4x8x16384x128c', '2x8x4096x64,Hkv=2,Skv=8192', '1x2x3x200000000', 'rows=70000,N=4096'];
  expect(shapes.map((shape) => smallerText(parseShape(shape)).replace(/^.*: /, ''))).toEqual([
    'verify with --shape 1x1x512x128c',
    'verify with --shape 1x1x1024x64,Hkv=1,Skv=1024',
    'verify with --shape 1x1x1x200000000',
    'verify a smaller one',
  ]);
});
