/** Checks the text of a job's page about drawn shapes. */
import { create } from '@bufbuild/protobuf';
import { CaseResultSchema, Verdict, VerifyResultSchema, type CaseResult } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { PLAIN } from '../../testing/result-fixtures.ts';
import { table } from '../cells/table.ts';
import { plainLines } from '../plain/plain-painter.ts';
import { caseColumns } from './case-columns.ts';
import { caseFacts, caseRemark, errorColumns, limitText, verdictPiece, verifyBlocks } from './cases.ts';

const inputs = [{ distribution: 'normal', verdict: Verdict.FAIL }];
const rounding = { ratio: 42.5, limit: 2 };
const verify = create(VerifyResultSchema, {
  cases: [{ shape: parseShape('1x1x64x64'), verdict: Verdict.PASS, seeds: 5 }],
  drawn: [
    { shape: parseShape('1x2x8x64'), verdict: Verdict.PASS, drawn: true, inputs },
    { shape: parseShape('2x7x1031x64'), verdict: Verdict.FAIL, drawn: true, inputs, reason: 'WRONG_RESULT: many' },
    {
      shape: parseShape('1x1x513x64'),
      verdict: Verdict.FAIL,
      drawn: true,
      foundFrom: parseShape('2x7x1031x64'),
      inputs,
      rounding,
      elements: 32_832n,
      reason: 'WRONG_RESULT: some',
    },
  ],
});

test('a drawn shape that fails has a row, and the smallest failing shape names the shape from which it was derived', () => {
  const lines = plainLines(verifyBlocks(verify), PLAIN);
  expect(lines[0]).toContain('1 of 1 case and 1 of 2 probes passed');
  expect(lines.some((line) => /^\s*1x1x513x64 random\s/.test(line))).toBe(true);
  expect(lines.some((line) => /^\s*1x2x8x64/.test(line))).toBe(false);
  expect(lines.join(' ').replaceAll(/\s+/g, ' ')).toContain(
    '1x1x513x64 random (smallest failing shape, found from 2x7x1031x64): wrong result: some',
  );
});

test('the facts of view 2 contain the error in rounding units, and the shape from which the case was derived', () => {
  const facts = caseFacts(verify.drawn.at(-1) as CaseResult);
  const texts = JSON.stringify(facts);
  expect(texts).toContain('42.5x the error that it explains (limit 2');
  expect(texts).toContain('2x7x1031x64');
});

test('a case without a finite element shows no error in rounding units, because it would be 0', () => {
  const nan = { ...(verify.drawn.at(-1) as CaseResult), nanCount: 32_832n, rounding: { ...rounding, ratio: 0 } };
  expect(JSON.stringify(caseFacts(nan as CaseResult))).not.toContain('limit 2');
});

test('a large error on large values is shown with its share of the limit, if the runner measured the share', () => {
  const probe = { shape: parseShape('1x2x333x64'), verdict: Verdict.PASS, elements: 64n, maxAbsError: 7.98 };
  const report = (worstOfLimit?: number): string =>
    plainLines(verifyBlocks(create(VerifyResultSchema, { cases: [{ ...probe, worstOfLimit }] })), PLAIN).join('\n');
  expect(report(0.032)).toMatch(/largest error +of limit[^]*✓ pass +7\.98 +3\.2 %/);
  expect(report()).not.toContain('of limit');
});

test('shares of the limit have one form, whether the case passes or not, in at most 7 cells', () => {
  const shares = [0.0004, 0.032, 0.63, 3.39, 23.6, 99.994, 114.3, 1.2e7];
  const texts = shares.map((worstOfLimit) =>
    limitText(create(CaseResultSchema, { verdict: worstOfLimit > 1 ? Verdict.FAIL : Verdict.PASS, worstOfLimit })),
  );
  expect(texts).toEqual(['0.0 %', '3.2 %', '63 %', '339 %', '2,360 %', '9,999 %', '1.1e4 %', '1.2e9 %']);
});

test('of many inputs, the few that the kernel is right on are named', () => {
  const wrongOn = (passing: readonly string[], all: readonly string[]): string => {
    const result = create(VerifyResultSchema, {
      probes: [
        {
          shape: parseShape('1x2x333x64'),
          elements: 64n,
          verdict: Verdict.FAIL,
          inputs: all.map((distribution) => ({
            distribution,
            verdict: passing.includes(distribution) ? Verdict.PASS : Verdict.FAIL,
          })),
        },
      ],
    });
    return caseFacts(result.probes[0]!)[0]!.value;
  };
  const six = ['offset', 'max_last', 'max_first', 'one_key', 'zeros', 'repeated'];
  expect([wrongOn(['zeros'], six), wrongOn([], six), wrongOn(six.slice(2), six)]).toEqual([
    'all 6 inputs but zeros',
    'all 6 inputs',
    'offset, max_last',
  ]);
});

test.each([74, 78])('in %i cells, axes that only probes give are left out before the share of the limit', (width) => {
  const results = ['1x4x128x64', '2x8x512x64c', '1x4x128x64,Hkv=2', '1x4x128x64,Skv=96,causal=2'].map((shape, index) =>
    create(CaseResultSchema, {
      ...{ shape: parseShape(shape), verdict: Verdict.FAIL, elements: 100n, maxAbsError: 0.105, worstOfLimit: 9.7 },
      inputs: index < 2 ? [] : [{ distribution: 'ones', verdict: Verdict.FAIL }],
      mismatches: 12_345n,
    }),
  );
  const columns = [
    ...caseColumns(results, { shape: ({ shape }) => shape, remark: caseRemark, width }),
    { title: 'verdict', cell: verdictPiece, cutLast: true },
    ...errorColumns(results),
  ];
  const { titles } = table(columns, results, width);
  expect(titles).toEqual(expect.arrayContaining(['B', 'H', 'S', 'causal', 'largest error', 'of limit', 'mismatch']));
  expect(titles.includes('Hkv')).toBe(width >= 78);
});
