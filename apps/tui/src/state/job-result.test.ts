import { Phase, Verdict } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { eventsOf } from '../testing/sample-job.ts';
import { reduceJob } from './job-reducer.ts';
import { resultOf } from './job-result.ts';
import { jobViewOf } from './job-view.ts';

const EMPTY = jobViewOf({ name: 'jobs/1', kind: 0, label: '', kernelId: '', state: 0, outcome: 0, summary: '' });
const collected = (...payloads: Parameters<typeof eventsOf>[0]) =>
  resultOf(eventsOf(payloads).reduce(reduceJob, EMPTY));

test('a job that was cut off during verification shows its build and the cases so far', () => {
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
  expect(
    result?.variants.map(({ label, fallback, build, verify }) => [
      label,
      fallback,
      build?.succeeded,
      verify?.passedCases,
      verify?.cases.length,
    ]),
  ).toEqual([
    ['USE_WMMA=1', false, true, 1, 2],
    ['USE_WMMA=0', true, false, undefined, undefined],
  ]);
});

test('a job that found nothing has no result', () => {
  expect(collected({ case: 'created', value: {} }, { case: 'logLine', value: { text: 'starting' } })).toBe(undefined);
});

test('findings from before a variant had its label belong to the requested variant', () => {
  const result = collected(
    { case: 'phaseStarted', value: { phase: Phase.PRECHECK } },
    { case: 'finding', value: { message: 'S is not divisible by 16' } },
    { case: 'phaseStarted', value: { phase: Phase.BUILD, variant: 'USE_WMMA=1' } },
    { case: 'buildResult', value: { succeeded: true } },
  );
  expect(
    result?.variants.map(({ label, fallback, findings, build }) => [
      label,
      fallback,
      findings.length,
      build?.succeeded,
    ]),
  ).toEqual([['USE_WMMA=1', false, 1, true]]);
});

test('a job that ended by itself has the result from its last event, not a result built from its events', () => {
  const told = { provenance: { sourceDigest: 'ab' }, variants: [{ label: 'USE_WMMA=1', build: { succeeded: true } }] };
  const result = collected(
    { case: 'buildResult', value: { succeeded: false } },
    { case: 'finished', value: { result: told } },
  );
  expect([result?.provenance?.sourceDigest, result?.variants.map(({ build }) => build?.succeeded)]).toEqual([
    'ab',
    [true],
  ]);
});
