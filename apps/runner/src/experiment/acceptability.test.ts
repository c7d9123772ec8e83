import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import {
  ComparisonVerdict,
  Outcome,
  TimingMode,
  VariantResultSchema,
  Verdict,
  type VariantResult,
} from '@flashcore/shared/contract';
import type { JobSpec } from '../spec/job-spec.ts';
import { acceptabilityOf } from './acceptability.ts';

/** The fields of a variant without the message's own properties. */
type Fields = Extract<MessageInitShape<typeof VariantResultSchema>, { readonly $typeName?: undefined }>;

/** A ranked run on a GPU; `over`: the champion with which it was compared. */
const rankedRun = (over?: { job: string; label: string }): JobSpec =>
  ({
    judged: true,
    kernel: { manifest: { layouts: [] }, undocumented: ['title', 'NOTES.md'] },
    resolved: { parameters: {} },
    device: { name: 'NVIDIA L4', simulated: false },
    ranking: { ranked: true, reasons: [] },
    benchmark: {},
    over,
  }) as unknown as JobSpec;
const CHAMPION = { job: 'jobs/1', label: 'flashcore_v6' };

/** A variant that may be accepted, with these changes. */
const variantWith = (given: Fields = {}): VariantResult =>
  create(VariantResultSchema, {
    build: { succeeded: true },
    verify: { probes: [{}], tolerance: { profile: 'parity' } },
    gates: [{ gateId: 'correctness', metric: 'parity_cases_passed', level: 'hard', verdict: Verdict.PASS }],
    benchmarks: [
      { mode: TimingMode.COLD, valid: true },
      { mode: TimingMode.HOT, valid: true },
    ],
    comparison: { verdict: ComparisonVerdict.WITHIN_MARGIN },
    ...given,
  });

const answer = (spec: JobSpec, variant: VariantResult) =>
  acceptabilityOf(spec, { outcome: Outcome.PASSED, variants: [variant], job: 'jobs/2' })!;

test('a ranked run that passed on a GPU can be accepted, as the first champion or over the current one', () => {
  expect(answer(rankedRun(), variantWith())).toMatchObject({ possible: true, over: 'none' });
  expect(answer(rankedRun(CHAMPION), variantWith())).toMatchObject({ possible: true, over: CHAMPION.job });
});

test.each<[string, Fields, string]>([
  [
    'whose hot time is not valid',
    {
      benchmarks: [
        { mode: TimingMode.COLD, valid: true },
        { mode: TimingMode.HOT, valid: false, invalidReason: 'the time limit came first' },
      ],
    },
    'it has no valid time: the time limit came first',
  ],
  ['that was not timed', { benchmarks: [] }, 'it has no valid time: it was not timed'],
  [
    'with a hard gate that nobody measured',
    {
      gates: [
        { gateId: 'correctness', metric: 'parity_cases_passed', level: 'hard', verdict: Verdict.PASS },
        { gateId: 'spills', title: 'No spills', metric: 'spill_bytes', level: 'hard', verdict: Verdict.NOT_MEASURED },
      ],
    },
    'not measured: "No spills"',
  ],
  [
    'of a kernel without notes',
    {
      gates: [
        { gateId: 'correctness', metric: 'parity_cases_passed', level: 'hard', verdict: Verdict.PASS },
        { gateId: 'documented', level: 'hard', verdict: Verdict.NOT_JUDGED, detail: 'fill in NOTES.md' },
      ],
    },
    'fill in NOTES.md',
  ],
])('a run %s cannot be accepted', (_, given, reason) => {
  for (const spec of [rankedRun(), rankedRun(CHAMPION)])
    expect(answer(spec, variantWith(given))).toMatchObject({ possible: false, reason });
});

test.each([ComparisonVerdict.SLOWER, ComparisonVerdict.NOT_JUDGED, undefined])(
  'a run whose comparison with the champion has verdict %s cannot be accepted',
  (verdict) => {
    const comparison = verdict === undefined ? verdict : { verdict, reason: 'the reason of the comparison' };
    const told = verdict !== undefined ? 'the reason of the comparison' : 'the two were not compared';
    expect(answer(rankedRun(CHAMPION), variantWith({ comparison }))).toMatchObject({
      possible: false,
      reason: `it is not known to be as fast as the champion flashcore_v6: ${told}`,
    });
  },
);

const UNDOCUMENTED: Fields = {
  gates: [
    { gateId: 'correctness', metric: 'parity_cases_passed', level: 'hard', verdict: Verdict.PASS },
    { gateId: 'documented', level: 'hard', verdict: Verdict.NOT_JUDGED, detail: 'fill in NOTES.md' },
  ],
};

test('a run that lacks only notes wants them; one that lacks more, or a title of kernel.yaml, must run again', () => {
  const spec = rankedRun(CHAMPION);
  const lacking = (...undocumented: string[]): JobSpec => ({ ...spec, kernel: { ...spec.kernel, undocumented } });
  expect(answer(lacking('NOTES.md'), variantWith(UNDOCUMENTED))).toMatchObject({
    possible: false,
    notesWanted: true,
    reason: 'fill in NOTES.md',
    over: CHAMPION.job,
    command: 'fa-tui accept 2 --over 1',
  });
  expect(answer(lacking('title', 'NOTES.md'), variantWith(UNDOCUMENTED))).toMatchObject({
    possible: false,
    notesWanted: false,
    reason: 'fill in NOTES.md',
    over: '',
  });
  expect(answer(lacking('NOTES.md'), variantWith({ ...UNDOCUMENTED, benchmarks: [] }))).toMatchObject({
    notesWanted: false,
    reason: 'it has no valid time: it was not timed',
  });
});
