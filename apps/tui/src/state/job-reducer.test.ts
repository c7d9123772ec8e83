import fc from 'fast-check';
import { create } from '@bufbuild/protobuf';
import {
  JobEventSchema,
  JobState,
  Outcome,
  Phase,
  TimingMode,
  Verdict,
  type JobEvent,
} from '@flashcore/shared/contract';
import { describe, expect, test } from 'vitest';
import { SAMPLE_JOB, SAMPLE_START_MS, eventsOf, sampleEvents } from '../testing/sample-job.ts';
import { jobViewOf, phaseShare, type JobView } from './job-view.ts';
import { reduceJob } from './job-reducer.ts';
import { casesInAll, phaseVerdict, variantsOf } from './selectors.ts';

const EMPTY = jobViewOf({ name: SAMPLE_JOB, kind: 0, label: '', kernelId: '', state: 0, outcome: 0, summary: '' });
const replay = (events: readonly JobEvent[], from: JobView = EMPTY): JobView => events.reduce(reduceJob, from);

const EVENTS = sampleEvents();
const WHOLE = replay(EVENTS);

describe('the view after a whole experiment', () => {
  test('has the names, states and times of the job', () => {
    const { name, label, kernelId, state, outcome, lastSequence, gap, createTime, endTime, deviceSeconds } = WHOLE;
    expect({ name, label, kernelId, state, outcome, lastSequence, gap, createTime, endTime, deviceSeconds }).toEqual({
      name: SAMPLE_JOB,
      label: 'flashcore_v6 USE_WMMA=1',
      kernelId: 'flashcore_v6',
      state: JobState.ENDED,
      outcome: Outcome.WRONG_RESULT,
      lastSequence: EVENTS.length,
      gap: false,
      createTime: SAMPLE_START_MS,
      endTime: SAMPLE_START_MS + (EVENTS.length - 1) * 200,
      deviceSeconds: 9.2,
    });
  });

  test('has both variants with their results, the fallback last', () => {
    expect(
      variantsOf(WHOLE).map(({ label, fallback, cases, benchmarks, gates, findings, build, diagnostics }) => ({
        label,
        fallback,
        cases: cases.length,
        benchmarks: benchmarks.map(({ key }) => key),
        gates: gates.length,
        findings: findings.length,
        built: build?.succeeded,
        diagnostics: diagnostics.length,
      })),
    ).toEqual([
      {
        label: 'USE_WMMA=1',
        fallback: false,
        cases: 7,
        benchmarks: ['2x8x512x64 COLD candidate', '2x8x512x64 HOT candidate'],
        gates: 10,
        findings: 1,
        built: true,
        diagnostics: 1,
      },
      {
        label: 'USE_WMMA=0',
        fallback: true,
        cases: 1,
        benchmarks: [],
        gates: 0,
        findings: 0,
        built: true,
        diagnostics: 0,
      },
    ]);
  });

  test('has the phases in order, all ended, each with its verdict', () => {
    expect(
      WHOLE.phases.map((phase) => [
        Phase[phase.phase],
        phase.variant,
        phase.endTime !== undefined,
        Verdict[phaseVerdict(WHOLE, phase)],
      ]),
    ).toEqual([
      ['PRECHECK', '', true, 'PASS'],
      ['BUILD', 'USE_WMMA=1', true, 'PASS'],
      ['VERIFY', 'USE_WMMA=1', true, 'FAIL'],
      ['BENCHMARK', 'USE_WMMA=1', true, 'PASS'],
      ['PROFILE', 'USE_WMMA=1', true, 'NOT_MEASURED'],
      ['GATES', 'USE_WMMA=1', true, 'FAIL'],
      ['BUILD', 'USE_WMMA=0', true, 'PASS'],
      ['VERIFY', 'USE_WMMA=0', true, 'NOT_MEASURED'],
    ]);
  });
});

test('progress within a case is counted in seeds', () => {
  const until = EVENTS.findIndex(({ payload }) => payload.case === 'verifyProgress' && payload.value.caseIndex === 3);
  const phase = replay(EVENTS.slice(0, until + 1)).phases.at(-1);
  expect(phase && phaseShare(phase)).toBeCloseTo((3 + 2 / 5) / 7);
});

test('the number of finished cases is shown next to the number of all cases, even while no case is running', () => {
  const after = EVENTS.findIndex(({ payload }) => payload.case === 'caseResult');
  const [variant] = replay(EVENTS.slice(0, after + 1)).variants;
  expect([variant!.cases.length, variant!.verifying, casesInAll(variant!)]).toEqual([1, undefined, 7]);
});

test('for each variant, the final result replaces the live results', () => {
  const events = eventsOf([
    { case: 'created', value: { job: { name: SAMPLE_JOB } } },
    { case: 'phaseStarted', value: { phase: Phase.VERIFY, variant: 'A=1', steps: 1 } },
    { case: 'caseResult', value: { verdict: Verdict.PASS, maxAbsError: 1 } },
    {
      case: 'finished',
      value: {
        outcome: Outcome.PASSED,
        summary: 'done',
        result: {
          variants: [
            {
              label: 'A=1',
              verify: {
                passedCases: 2,
                cases: [
                  { verdict: Verdict.PASS, maxAbsError: 2 },
                  { verdict: Verdict.PASS, maxAbsError: 3 },
                ],
              },
            },
            { label: 'A=0', fallback: true },
          ],
        },
      },
    },
  ]);
  expect(
    replay(events).variants.map(({ label, fallback, cases }) => ({
      label,
      fallback,
      errors: cases.map(({ maxAbsError }) => maxAbsError),
    })),
  ).toEqual([
    { label: 'A=1', fallback: false, errors: [2, 3] },
    { label: 'A=0', fallback: true, errors: [] },
  ]);
});

test('an early event changes nothing except the flag that asks for the missing events', () => {
  const [first, , third] = EVENTS;
  const view = reduceJob(reduceJob(EMPTY, first!), third!);
  expect(view).toEqual({ ...reduceJob(EMPTY, first!), gap: true });
  expect(reduceJob(view, EVENTS[1]!).gap).toBe(false);
});

test('replaying parts of the log in any order, and then the rest, gives the same view as one plain replay', () => {
  fc.assert(
    fc.property(
      // Deliveries of dropped and resumed streams: pieces of the log with any start, overlap, gap and order.
      fc.array(fc.tuple(fc.nat(EVENTS.length), fc.nat(EVENTS.length)), { maxLength: 12 }),
      (pieces) => {
        const disturbed = pieces.reduce(
          (view, [from, length]) => replay(EVENTS.slice(from, from + length), view),
          EMPTY,
        );
        // A client resumes after the last event that it applied.
        expect(replay(EVENTS.slice(disturbed.lastSequence), disturbed)).toEqual(WHOLE);
      },
    ),
    { numRuns: 150 },
  );
});

test('whatever events arrive, and in whatever order, the view is that of a prefix of the log', () => {
  fc.assert(
    fc.property(fc.shuffledSubarray(EVENTS), (events) => {
      const view = replay(events);
      expect(view).toEqual({ ...replay(EVENTS.slice(0, view.lastSequence)), gap: view.gap });
    }),
    { numRuns: 80 },
  );
});

test('benchmark progress advances within a timing mode and never goes back', () => {
  const progress = (samples: number, expectedSamples: number): JobEvent =>
    create(JobEventSchema, {
      job: SAMPLE_JOB,
      payload: {
        case: 'benchmarkProgress',
        value: { mode: TimingMode.COLD, subject: 'candidate', latency: { samples, p50Us: 10 }, expectedSamples },
      },
    });
  const started = create(JobEventSchema, {
    job: SAMPLE_JOB,
    payload: { case: 'phaseStarted', value: { phase: Phase.BENCHMARK, variant: 'v', steps: 2 } },
  });
  const shares: (number | undefined)[] = [];
  [started, progress(10, 40), progress(20, 40), progress(25, 100), progress(90, 100)].reduce((view, event, index) => {
    const next = reduceJob(view, { ...event, sequence: BigInt(index + 1) });
    shares.push(phaseShare(next.phases.at(-1)!));
    return next;
  }, EMPTY);
  expect(shares).toEqual([0, 0.125, 0.25, 0.25, 0.45]);
});

test('gates without an answer when the job ends become "not measured", and keep their places in the plan', () => {
  const gate = { gateId: 'parity', level: 'hard' };
  const job = replay(
    eventsOf([
      { case: 'gatePlan', value: { plan: { name: 'merge', gates: [gate] } } },
      { case: 'finished', value: { outcome: Outcome.CANCELLED, result: { plan: { name: 'merge' } } } },
    ]),
  );
  const [closed] = variantsOf(job)[0]!.gates;
  expect([closed?.verdict, closed?.detail, job.plan?.gates.length]).toEqual([
    Verdict.NOT_MEASURED,
    'the job ended before (cancelled)',
    1,
  ]);
});

test("the first NaN decides a gate that forbids NaN, but the runner's answer replaces that", () => {
  const gate = { gateId: 'nan', metric: 'nan_inf_elements', comparison: '==', target: 0, level: 'hard' };
  const events = eventsOf([
    { case: 'created', value: { job: { name: SAMPLE_JOB } } },
    { case: 'phaseStarted', value: { phase: Phase.VERIFY, variant: 'v', steps: 2 } },
    { case: 'gatePlan', value: { variant: 'v', plan: { gates: [gate] } } },
    { case: 'caseResult', value: { elements: 1024n } },
    { case: 'caseResult', value: { nanCount: 500n, infCount: 12n } },
    { case: 'gateResult', value: { ...gate, verdict: Verdict.FAIL, value: 600 } },
  ]);
  const seen = events.map((_, index) => replay(events.slice(0, index + 1)).variants[0]?.gates[0]);
  expect(seen.slice(3).map((told) => [told?.verdict, told?.value])).toEqual([
    [Verdict.UNSPECIFIED, undefined],
    [Verdict.FAIL, 512],
    [Verdict.FAIL, 600],
  ]);
});
