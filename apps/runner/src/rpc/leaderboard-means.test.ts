/** The leaderboard by geometric means over a case set, and its ties, through the gRPC API. */
import { create } from '@bufbuild/protobuf';
import {
  CaseSetSchema,
  GatePlanSchema,
  JobResultSchema,
  Outcome,
  TimingMode,
  Verdict,
  type JobResult,
} from '@flashcore/shared/contract';
import { formatCase, formatShape, parseShape } from '@flashcore/shared/kernels';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PROTOCOL_VERSION } from '../spec/benchmark-protocol.ts';
import { FAKE_DEVICE, fakePlanner } from '../testing/fake-planner.ts';
import { collect, kernel, startTestRunner, type TestRunner } from '../testing/test-runner.ts';

const CANONICAL = parseShape('2x8x512x64');
const OTHER = parseShape('1x8x512x64');
const SETS = [
  create(CaseSetSchema, { name: 'success', shapes: [CANONICAL, { ...OTHER, name: 'Model 8B' }], weights: [3, 1] }),
  create(CaseSetSchema, { name: 'canonical', shapes: [CANONICAL], weights: [1] }),
];
const PLANS = ['success', 'canonical'].map((shapes) =>
  create(GatePlanSchema, { name: shapes, shapes, acceptable: true }),
);

/** Microseconds on CANONICAL and OTHER, with the half-width of their intervals; undefined: not measured there. */
type Times = readonly [canonical: number, other: number | undefined, halfWidth: number];

const resultOf = ([canonical, other, halfWidth]: Times, ranked = true): JobResult =>
  create(JobResultSchema, {
    provenance: { device: FAKE_DEVICE, protocol: PROTOCOL_VERSION },
    ranking: { ranked },
    variants: [
      {
        verify: { passedCases: 1, cases: [{ verdict: Verdict.PASS }] },
        benchmarks: [
          { shape: CANONICAL, p50Us: canonical },
          { shape: OTHER, p50Us: other },
        ].flatMap(({ shape, p50Us }) =>
          p50Us === undefined
            ? []
            : [
                {
                  shape,
                  mode: TimingMode.HOT,
                  valid: true,
                  latency: { samples: 100, p50Us, p50LowUs: p50Us - halfWidth, p50HighUs: p50Us + halfWidth },
                  sdpa: [{ name: 'sdpa/cudnn', version: 'PyTorch 2', speedup: 2, latency: { samples: 100, p50Us: 8 } }],
                },
              ],
        ),
      },
    ],
  });

const RUNS: Record<string, JobResult> = {
  first: resultOf([6, 5, 0.1]),
  // Faster than `first` on each shape, but in different jobs: no single build is faster on both.
  halves: resultOf([5, undefined, 0.1]),
  tied: resultOf([6.05, 5.05, 0.1]),
  third: resultOf([6.3, 5.3, 0.1]),
  unranked: resultOf([1, 1, 0.1], false),
};

let fixture: TestRunner;
beforeAll(async () => {
  const bodies = Object.fromEntries(
    Object.entries(RUNS).map(([name, result]) => [
      name,
      () => Promise.resolve({ outcome: Outcome.PASSED, summary: 'passed', result }),
    ]),
  );
  const planner = fakePlanner({ bodies });
  const judging = () => ({ ...planner.judging(), caseSets: SETS, plans: PLANS });
  const rankedCases = () => ({ canonicalShape: CANONICAL, caseSets: SETS });
  fixture = await startTestRunner({ createPlanner: () => ({ ...planner, judging, rankedCases }) });
  for (const name of Object.keys(RUNS)) await collect(fixture.client.start('runExperiment', kernel(name)));
});
afterAll(() => fixture[Symbol.asyncDispose]());

test('an entry has the weighted geometric mean over the shapes that one ranked run of one build measured, and ties share a rank', async () => {
  const { entries, place } = await fixture.client.getLeaderboard({ caseSet: 'success' });
  expect(place).toMatchObject({ caseSet: 'success', results: 3 });
  expect(place!.shape).toBeUndefined();
  expect(entries.map(({ label, rank, latency, mean }) => [label, rank, latency, mean!.us.toFixed(6)])).toEqual([
    ['first', 1, undefined, ((6 ** 3 * 5) ** 0.25).toFixed(6)],
    ['tied', 1, undefined, ((6.05 ** 3 * 5.05) ** 0.25).toFixed(6)],
    ['third', 3, undefined, ((6.3 ** 3 * 5.3) ** 0.25).toFixed(6)],
    ['sdpa/cudnn', 4, undefined, '8.000000'],
  ]);
  const [first] = entries;
  // Half-widths of the logarithms: 0.1 in 6 with weight 0.75, and 0.1 in 5 with weight 0.25, added as squares.
  const halfWidth = Math.hypot(0.75 * Math.log(6.1 / 6), 0.25 * Math.log(5.1 / 5));
  expect(Math.log(first!.mean!.highUs / first!.mean!.us)).toBeCloseTo(halfWidth, 9);
  expect(first!.mean!.cases.map(({ shape, weight, p50Us }) => [formatShape(shape!), weight, p50Us])).toEqual([
    ['2x8x512x64', 3, 6],
    ['1x8x512x64', 1, 5],
  ]);
  expect([first!.speedup, first!.sdpaInTurns]).toEqual([expect.closeTo(2, 9), true]);
});

test('the table of a single shape also has ties, and lists the available means', async () => {
  const { entries, places } = await fixture.client.getLeaderboard({});
  expect(entries.map(({ label, rank }) => [label, rank])).toEqual([
    ['halves', 1],
    ['first', 2],
    ['tied', 2],
    ['third', 4],
    ['sdpa/cudnn', 5],
  ]);
  expect(places.map(({ caseSet, shape, results }) => [caseSet || formatShape(shape!), results])).toEqual([
    ['success', 3],
    ['2x8x512x64', 4],
    ['1x8x512x64', 3],
  ]);
});

test("a request may name a shape's case or give its values, and the answer's place has the case's name either way", async () => {
  const named = await fixture.client.getLeaderboard({ shape: { name: 'Model 8B' } });
  expect(named.entries.map(({ label }) => label)).toEqual(['first', 'tied', 'third', 'sdpa/cudnn']);
  const given = await fixture.client.getLeaderboard({ shape: parseShape('1x8x512x64') });
  expect([named, given].map(({ place }) => place?.shape && formatCase(place.shape))).toEqual([
    '1x8x512x64 (Model 8B)',
    '1x8x512x64 (Model 8B)',
  ]);
  await expect(fixture.client.getLeaderboard({ shape: { name: 'Model 9B' } })).rejects.toThrow(
    'shape: must be a shape or a case\'s name, got "Model 9B" (did you mean "Model 8B"?)',
  );
});

test('an unknown set, or a set together with a shape, is refused; a set without results has a reason why it is empty', async () => {
  const refused = async (asked: Parameters<typeof fixture.client.getLeaderboard>[0]) =>
    fixture.client.getLeaderboard(asked).then(
      () => expect.fail('was answered'),
      (error: { violations: unknown[] }) => error.violations,
    );
  expect(await refused({ caseSet: 'succes' })).toEqual([
    {
      field: 'case_set',
      description: 'must be one of success, canonical, got "succes" (did you mean "success"?)',
    },
  ]);
  expect(await refused({ caseSet: 'success', shape: OTHER })).toMatchObject([{ field: 'case_set' }]);
  expect(await fixture.client.getLeaderboard({ caseSet: 'success', mode: TimingMode.COLD })).toMatchObject({
    entries: [],
    emptyReason:
      'No ranked run on Fake GPU measured one build on all 2 shapes of success, cold, yet: run a plan that measures success',
  });
});
