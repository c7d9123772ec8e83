import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { Outcome } from '../generated/flashcore/runner/v1/job_pb.js';
import { FindingKind } from '../generated/flashcore/runner/v1/kernel_pb.js';
import {
  ComparisonVerdict,
  VariantResultSchema,
  Verdict,
  VerifyResultSchema,
} from '../generated/flashcore/runner/v1/result_pb.js';
import {
  exitCodeOfError,
  exitCodeOfOutcome,
  outcomeOfJob,
  outcomeOfVariant,
  isParity,
  parityCounts,
  parityShort,
  parityText,
} from './outcome.ts';

const variant = (init: Parameters<typeof create<typeof VariantResultSchema>>[1]) => create(VariantResultSchema, init);
const found = (...kinds: FindingKind[]) => variant({ findings: kinds.map((kind) => ({ kind })) });
const gate = (verdict: Verdict, level: string) => variant({ gates: [{ verdict, level }] });

test("outcomeOfVariant() returns a variant's worst problem, and an unmeasured value fails nothing", () => {
  expect(
    [
      variant({ build: { succeeded: true } }),
      gate(Verdict.FAIL, 'warn'),
      gate(Verdict.NOT_MEASURED, 'hard'),
      gate(Verdict.FAIL, 'hard'),
      variant({ build: { succeeded: false } }),
      variant({ build: { succeeded: false }, findings: [{ kind: FindingKind.COMPILE_TIMED_OUT }] }),
      variant({
        verify: { cases: [{ verdict: Verdict.PASS }, { verdict: Verdict.FAIL }] },
        gates: [{ verdict: Verdict.FAIL, level: 'hard' }],
      }),
      found(FindingKind.WRONG_RESULT, FindingKind.OUT_OF_BOUNDS),
      found(FindingKind.DEADLOCK),
      found(FindingKind.TIMED_OUT),
      found(FindingKind.OUT_OF_MEMORY),
      found(FindingKind.RACE),
      found(FindingKind.MISSING_ENTRY),
      found(FindingKind.BANK_CONFLICTS),
      found(FindingKind.REGISTER_SPILLS),
    ].map((each) => Outcome[outcomeOfVariant(each)]),
  ).toEqual([
    'PASSED',
    'PASSED',
    'PASSED',
    'FAILED',
    'COMPILE_FAILED',
    'TIMED_OUT',
    'WRONG_RESULT',
    'CRASHED',
    'CRASHED',
    'TIMED_OUT',
    'OUT_OF_MEMORY',
    'WRONG_RESULT',
    'FAILED',
    'PASSED',
    'PASSED',
  ]);
});

test('without gates a slower candidate fails the job; with gates, the gates decide', () => {
  const slower = { verdict: ComparisonVerdict.SLOWER };
  const outcomes = [
    variant({ comparison: slower }),
    variant({ comparison: { verdict: ComparisonVerdict.NOT_JUDGED } }),
    variant({ comparison: slower, gates: [{ verdict: Verdict.FAIL, level: 'warn' }] }),
  ];
  expect(outcomes.map((each) => Outcome[outcomeOfVariant(each)])).toEqual(['FAILED', 'PASSED', 'PASSED']);
});

test('a fallback does not change the outcome of the requested variant', () => {
  const fallback = (init: object) => ({ ...variant(init), fallback: true });
  expect(outcomeOfJob([], [gate(Verdict.FAIL, 'hard'), fallback({})])).toBe(Outcome.FAILED);
  expect(outcomeOfJob([], [variant({}), fallback({ findings: [{ kind: FindingKind.CRASHED }] })])).toBe(Outcome.PASSED);
});

test('if the plan continues with the fallback, its build, findings and cases decide', () => {
  const fallback = (init: object) => ({ ...variant(init), fallback: true });
  const rejected = gate(Verdict.FAIL, 'hard');
  const outcomes = [
    [rejected, fallback({ gates: [{ verdict: Verdict.FAIL, level: 'hard' }] })],
    [rejected, fallback({ findings: [{ kind: FindingKind.CRASHED }] })],
    [rejected],
  ].map((variants) => Outcome[outcomeOfJob([], variants, { fellBack: true })]);
  expect(outcomes).toEqual(['PASSED', 'CRASHED', 'FAILED']);
});

test('exitCodeOfOutcome() and exitCodeOfError() return the documented codes', () => {
  expect(
    [Outcome.PASSED, Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CANCELLED, Outcome.ERROR, Outcome.INTERRUPTED].map(
      exitCodeOfOutcome,
    ),
  ).toEqual([0, 1, 1, 3, 3, 3]);
  expect(
    (
      [
        'SHAPE_UNSUPPORTED',
        'KERNEL_NOT_FOUND',
        'INVALID_MANIFEST',
        'RUNNER_UNREACHABLE',
        'COMPILER_MISSING',
        'DISK_FULL',
      ] as const
    ).map(exitCodeOfError),
  ).toEqual([2, 2, 2, 3, 3, 3]);
});

const verify = (cases: Verdict[], probes: Verdict[]) =>
  parityCounts(
    create(VerifyResultSchema, {
      cases: cases.map((verdict) => ({ verdict })),
      probes: probes.map((verdict) => ({ verdict })),
    }),
  );

test('the smallest failing shape that was found from a drawn one does not count as another probe', () => {
  const drawn = [{ verdict: Verdict.FAIL }, { verdict: Verdict.FAIL, foundFrom: { batch: 2 } }];
  const verified = create(VerifyResultSchema, { cases: [{ verdict: Verdict.PASS }], drawn });
  expect(parityCounts(verified)).toEqual({ passedCases: 1, cases: 1, passedProbes: 0, probes: 1 });
});

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
])('parityText(), parityShort() and isParity() report cases and failed probes: %j', (counts, text, short, all) => {
  expect([parityText(counts), parityShort(counts), isParity(counts)]).toEqual([text, short, all]);
});
