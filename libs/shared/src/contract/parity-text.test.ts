import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { Verdict, VerifyResultSchema } from '../generated/flashcore/runner/v1/result_pb.js';
import { isParity, parityCounts, parityShort, parityText } from './parity-text.ts';

const verify = (cases: Verdict[], probes: Verdict[]) =>
  parityCounts(
    create(VerifyResultSchema, {
      cases: cases.map((verdict) => ({ verdict })),
      probes: probes.map((verdict) => ({ verdict })),
    }),
  );

test.each([
  [verify([Verdict.PASS], []), '1 of 1 case', '1/1', true],
  [verify([Verdict.PASS, Verdict.PASS], [Verdict.PASS]), '2 of 2 cases and 1 of 1 probe', '2/2', true],
  [
    verify([Verdict.PASS, Verdict.PASS], [Verdict.PASS, Verdict.FAIL]),
    '2 of 2 cases and 1 of 2 probes',
    '2/2, 1/2 probes',
    false,
  ],
  [verify([Verdict.NOT_MEASURED], [Verdict.FAIL]), '0 of 1 case and 0 of 1 probe', '0/1, 0/1 probes', false],
  [verify([], []), '0 of 0 cases', '-', true],
])('%j', (counts, text, short, all) => {
  expect([parityText(counts), parityShort(counts), isParity(counts)]).toEqual([text, short, all]);
});
