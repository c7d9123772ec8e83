import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { CaseResultSchema, FindingKind, FindingSchema } from '@flashcore/shared/contract';
import { parseCases, parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { REPOSITORY_ROOT } from '../testing/test-runner.ts';
import { withInputs } from './case-runs.ts';

const NAMES = ['offset', 'max_last', 'one_key', 'outliers', 'extremes'];
const [normal] = Object.values(
  parseCases(readFileSync(join(REPOSITORY_ROOT, 'kernels/cases.yaml'), 'utf8'), 'cases.yaml').distributions,
);
const SHAPE = parseShape('1x2x333x64');

/** The message of a finding about a kernel that was wrong on these inputs, out of five. */
function messageOf(failed: readonly string[]): string {
  const inputs = NAMES.map((name) => ({ seed: '1', rule: { ...normal!, name } }));
  const found = inputs.map(({ rule }) => ({ failed: failed.includes(rule.name), maxAbsError: 0, roundingRatio: 0 }));
  const finding = create(FindingSchema, { kind: FindingKind.WRONG_RESULT, message: '1x2x333x64: 19 elements' });
  const run = { result: create(CaseResultSchema), findings: [finding], ends: false };
  return withInputs(run, { shape: SHAPE, inputs, found }).findings[0]!.message;
}

test('a finding names the inputs on which the kernel was wrong, unless they are many', () => {
  expect(messageOf(['max_last', 'one_key'])).toBe('1x2x333x64 on inputs "max_last", "one_key": 19 elements');
  expect(messageOf(NAMES.slice(1))).toBe('1x2x333x64 on 4 of 5 inputs, first "max_last": 19 elements');
  expect(messageOf(NAMES)).toBe('1x2x333x64 on all 5 inputs: 19 elements');
});
