import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import type { CaseReport, OutputReport } from '../../worker/messages/verifying.ts';
import { caseFindings } from './verify-findings.ts';

/** The messages about an output with these counts, without the shape. */
function messages(
  counts: Partial<Record<'mismatches' | 'nanCount' | 'infCount' | 'unwrittenCount', number>> & { worst?: object },
): string[] {
  const figures = {
    ...{ mismatches: 0, nanCount: 0, infCount: 0, unwrittenCount: 0, elements: 8n, maxAbsError: 0.5 },
    ...{ firstMismatches: [], errorMap: { outputDims: [1, 1, 1, 8] } },
    ...counts,
  };
  const output = { name: 'O', figures, beyondRounding: false, trivialNorm: false };
  const report = { outputs: [output as unknown as OutputReport], modified: [], straying: 0 };
  return caseFindings(report as unknown as CaseReport, parseShape('1x1x1x8')).map(({ message }) => message.slice(9));
}

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

test('a finding does not claim that the worst element has the largest error if another element has it', () => {
  const at = { batch: 0, head: 1, row: 2, column: 3, want: 1 };
  const text = (got: number): string => messages({ mismatches: 2, worst: { ...at, got } }).join();
  expect(text(1.5)).toMatch(/the largest error is 5\.00e-1 at b0 h1 s2 d3 \(got 1\.5\d*, want 1\.0*\)$/);
  expect(text(1.2)).toMatch(
    /the largest error is 5\.00e-1, the one farthest beyond its limit at b0 h1 s2 d3 \(got 1\.2/,
  );
});
