import { Verdict } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { eventsOf } from '../../testing/sample-job.ts';
import { logLinesOf } from './event-lines.ts';

const textsOf = (...payloads: Parameters<typeof eventsOf>[0]) =>
  eventsOf(payloads).flatMap((event) => logLinesOf(event).map(({ text }) => text));

test('the line of a case without output gives the reason for the failure instead of an error of 0', () => {
  const shape = { batch: 1, heads: 2, sequenceLength: 64, headDim: 64 };
  expect(
    textsOf(
      { case: 'caseResult', value: { shape, verdict: Verdict.FAIL, reason: 'OUT_OF_BOUNDS: thread 3 read past K' } },
      {
        case: 'caseResult',
        value: { shape, verdict: Verdict.FAIL, elements: 8n, mismatches: 1n, maxAbsError: 0.5, meanAbsError: 0.25 },
      },
    ),
  ).toEqual(['1x2x64x64: FAIL, out of bounds: thread 3 read past K', '1x2x64x64: FAIL, max 5.00e-1, mean 2.50e-1']);
});

test('lines of passed checks are routine, a failed soft gate warns, and a finding is shown as bad', () => {
  const shape = { batch: 1, heads: 2, sequenceLength: 64, headDim: 64 };
  const lines = eventsOf([
    { case: 'precheck', value: { check: 'inputs', verdict: Verdict.PASS, detail: 'fp16' } },
    { case: 'caseResult', value: { shape, verdict: Verdict.PASS, elements: 8n } },
    { case: 'caseResult', value: { shape, verdict: Verdict.NOT_MEASURED, reason: 'the run stopped' } },
    { case: 'gateResult', value: { title: 'Spills', verdict: Verdict.PASS, level: 'hard' } },
    { case: 'gateResult', value: { title: 'Registers', verdict: Verdict.FAIL, level: 'warn' } },
    { case: 'finding', value: { message: 'wrote past O', remedy: 'Check the index' } },
  ]).flatMap(logLinesOf);
  expect(lines.map(({ tone }) => tone)).toEqual(['routine', 'routine', 'routine', 'routine', 'warn', 'bad', 'plain']);
});

test('the line of a gate that rejects names the problem rather than the source of the value', () => {
  const gate = { verdict: Verdict.FAIL, comparison: '==', unit: 'parts', value: 1, source: 'the kernel folder' };
  const detail = 'NOTES.md is missing; what is not written down is tried again';
  expect(
    textsOf(
      { case: 'gateResult', value: { ...gate, title: 'Documented', level: 'hard', detail } },
      { case: 'gateResult', value: { ...gate, title: 'Documented', level: 'hard', detail: 'the kernel folder: 1' } },
      { case: 'gateResult', value: { ...gate, title: 'Documented', level: 'warn', detail } },
    ),
  ).toEqual([
    'gate Documented: FAIL, 1 part missing (target none missing): NOTES.md is missing',
    'gate Documented: FAIL, 1 part missing (target none missing)',
    'gate Documented: warns, 1 part missing (target none missing)',
  ]);
});
