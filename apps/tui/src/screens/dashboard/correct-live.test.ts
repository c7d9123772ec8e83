import { create } from '@bufbuild/protobuf';
import { CaseResultSchema, Verdict } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import { EMPTY_VARIANT } from '../../state/job-view.ts';
import { caseRows } from './correct-live.ts';

const failed = { verdict: Verdict.FAIL, elements: 596_736n, shape: parseShape('1x2x333x64') };

test('a failed case whose worst element is within its limit says what is wrong instead of "14 %" of the limit', () => {
  const cases = [
    { ...failed, maxAbsError: 32.7, worstOfLimit: 0.14, mismatches: 101n },
    { ...failed, maxAbsError: 0.0132, worstOfLimit: 0.99, rounding: { ratio: 26.1, limit: 2.8 } },
    { ...failed, maxAbsError: 0.0212, worstOfLimit: 1.3, mismatches: 6n },
  ].map((result) => create(CaseResultSchema, result));
  const rows = caseRows({ ...EMPTY_VARIANT, label: '', cases }).map((row) => rowText(row).trimEnd());
  expect(rows).toEqual([
    '✗ 1x2x333x64        32.7  101 outside',
    '✗ 1x2x333x64     1.32e-2  26x rounding',
    '✗ 1x2x333x64     2.12e-2  █████  130 %',
  ]);
});
