import { create } from '@bufbuild/protobuf';
import { FindingKind, FindingSchema, type Finding } from '@flashcore/shared/contract';
import { formatShape, parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { IS_LIKE, SEE_THE_MAP, TO_REPEAT, distinctFindings } from '../findings/verify-findings.ts';
import { addLikeness } from './verify-phase.ts';

const wrong = (shape: string, remedy: string): Finding =>
  create(FindingSchema, { kind: FindingKind.WRONG_RESULT, shape: parseShape(shape), remedy });

/** The remedy of the first finding. */
function remedyOf(...all: Finding[]): string {
  const findings = distinctFindings(all);
  addLikeness(findings, all);
  return findings[0]!.remedy;
}

test('a mistake that explains the output of a later shape is named in the first finding', () => {
  const unknown = wrong('1x2x333x64', `${SEE_THE_MAP}: whole tiles point to indexing`);
  const like = wrong('2x2x197x64c', `${IS_LIKE} where logits are scaled twice`);
  expect(remedyOf(unknown, like)).toBe('On 2x2x197x64c: This is the output where logits are scaled twice');
  expect(remedyOf(like, unknown)).toBe(like.remedy);
  const repeated = (finding: Finding, command: string): Finding =>
    wrong(formatShape(finding.shape!), `${finding.remedy}${TO_REPEAT}${command}`);
  expect(remedyOf(repeated(unknown, 'first'), repeated(like, 'second'))).toBe(
    'On 2x2x197x64c: This is the output where logits are scaled twice. To repeat it: first',
  );
  expect(remedyOf(wrong('1x1x1x64', 'Look for a factor'), like)).toBe('Look for a factor');
  expect(remedyOf(wrong('1x1x1x64', `${SEE_THE_MAP}.`), wrong('1x1x2x64', 'Look for a factor'))).toBe(
    `${SEE_THE_MAP}.`,
  );
});
