import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { JobEventSchema, Phase, Verdict } from '@flashcore/shared';
import { expect, test } from 'vitest';
import { PartialResult } from './partial-result.ts';

const collected = (...payloads: MessageInitShape<typeof JobEventSchema>['payload'][]) => {
  const partial = new PartialResult();
  payloads.forEach((payload) => partial.add(create(JobEventSchema, { payload })));
  return partial.get();
};

test('a job that was cut off while it was verified shows its build and the cases so far', () => {
  const result = collected(
    { case: 'created', value: {} },
    { case: 'phaseStarted', value: { phase: Phase.PRECHECK } },
    { case: 'precheck', value: { check: 'inputs', verdict: Verdict.PASS } },
    { case: 'phaseStarted', value: { phase: Phase.BUILD, variant: 'USE_WMMA=1' } },
    { case: 'logLine', value: { text: 'ptxas' } },
    { case: 'buildResult', value: { succeeded: true } },
    { case: 'phaseStarted', value: { phase: Phase.VERIFY, variant: 'USE_WMMA=1' } },
    { case: 'caseResult', value: { verdict: Verdict.PASS } },
    { case: 'caseResult', value: { verdict: Verdict.FAIL } },
    { case: 'phaseStarted', value: { phase: Phase.BUILD, variant: 'USE_WMMA=0' } },
    { case: 'buildResult', value: { succeeded: false } },
  );
  expect(result?.prechecks.length).toBe(1);
  expect(result?.variants.map(({ label, fallback, build, verify }) => [label, fallback, build?.succeeded, verify?.passedCases, verify?.cases.length])).toEqual([
    ['USE_WMMA=1', false, true, 1, 2],
    ['USE_WMMA=0', true, false, undefined, undefined],
  ]);
});

test('a job that found out nothing has no result', () => {
  expect(collected({ case: 'created', value: {} }, { case: 'logLine', value: { text: 'starting' } })).toBe(undefined);
});
