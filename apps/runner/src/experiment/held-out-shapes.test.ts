/** Tests held-out shapes: the leader of a search is tried on them, and nothing reveals them to a client. */
import { Outcome, HeldOutVerdict } from '@flashcore/shared/contract';
import { formatShape, parseShape } from '@flashcore/shared/kernels';
import { ALL_TESTS, missing } from '@flashcore/shared/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { JobOutcome, JobPayload } from '../jobs/job-context.ts';
import { openTestPlanner, rowKernel, type TestPlanner } from './testing/run-job.ts';

const SHOWN = parseShape('1x1x64x64');
// The kernel prints its sequence length. No client may see the 77.
const HELD_OUT = [parseShape('1x1x77x64'), parseShape('1x1x64x128')];

/**
 * A kernel with one thread per row, for D = 64. FITTED=1 is cheaper, but correct only if the length is a multiple of
 * 64, as in the shown shape.
 */
const KERNEL = rowKernel('fitted', {
  before: '#include <cstdio>',
  keys: `limits: [{ require: "D == 64", because: "rows of 64" }]
parameters: { FITTED: { values: [0, 1], default: 0, about: "1: right on shown shapes alone" } }`,
  body: `__shared__ volatile char pad[FITTED ? 1024 : 2048];
  pad[threadIdx.x] = 1;
  if (threadIdx.x == 0) printf("length %d\\n", row.seq_len);
  if (FITTED && row.seq_len % 64 != 0) row.scale = 1.0f;
  store_row(row.O, attended(row));`,
});

let fixture: TestPlanner;
beforeAll(async () => {
  fixture = openTestPlanner(undefined, { heldOut: HELD_OUT });
  await fixture.planner.prepare();
});
afterAll(() => fixture.close());

/** Everything that a client can read about a job, as one text. */
function told({ outcome, events }: { outcome: JobOutcome; events: JobPayload[] }): string {
  return JSON.stringify([outcome, events], (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
}

const QUICK = { minSamples: 5, maxSamples: 5, maxSeconds: 0.1 };
const experiment = (kernel = fixture.upload(KERNEL)) =>
  fixture.run('runExperiment', {
    kernel,
    // Other plans refuse kernels that print.
    plan: 'explore',
    variant: { parameters: { FITTED: 0n } },
    verify: { shapes: [SHOWN], seedCount: 1 },
    benchmark: {
      shapes: [SHOWN],
      protocol: QUICK,
      champion: { kernel: fixture.upload(KERNEL), variant: { parameters: { FITTED: 0n } } },
    },
    profile: { shape: SHOWN },
    noFallback: true,
    heldOut: true,
  });

/** Texts in which a job reveals the shape, or what the kernel printed on it. */
const leaks = (run: { outcome: JobOutcome; events: JobPayload[] }): string[] =>
  told(run).match(/.{0,80}(length 77|1x1x77x64|"sequenceLength":77\b).{0,20}/g) ?? [];

if (ALL_TESTS)
  test.skipIf(missing('nvcc'))(
    'tune reports a winner that fits only the shown shape as wrong, and reveals no held-out shape',
    { timeout: 120_000 },
    async () => {
      const run = await fixture.run('tune', { kernel: fixture.upload(KERNEL), shapes: [SHOWN] });
      const { outcome, summary, result } = run.outcome;
      expect(result.tune!.winner).toBe('FITTED=1');
      expect(result.variants[0]!.heldOut).toMatchObject({
        verdict: HeldOutVerdict.WRONG,
        detail: 'held-out: wrong',
        // Held-out shapes that the champion does not support are counted too: the number of supported ones would reveal
        // which shapes are held out.
        shapes: 2,
      });
      expect([outcome, summary]).toEqual([Outcome.FAILED, expect.stringMatching(/; held-out: wrong$/)]);
      expect(told(run).includes('length 64')).toBe(true);
      expect(leaks(run)).toEqual([]);
    },
  );

describe('an experiment of a search', () => {
  test('passes if its kernel is correct, and reveals no held-out shape', { timeout: 120_000 }, async () => {
    const right = await experiment();
    expect(right.outcome.result.variants[0]!.heldOut).toMatchObject({
      verdict: HeldOutVerdict.PASSED,
      detail: 'held-out: passed: right; the emulator’s times judge nothing',
    });
    expect(leaks(right)).toEqual([]);
  });

  test('cannot avoid a held-out shape by the limits in its manifest', { timeout: 120_000 }, async () => {
    const narrowed = {
      ...KERNEL,
      'kernel.yaml': KERNEL['kernel.yaml'].replace('"D == 64", because', '"D == 64 && S != 77", because'),
    };
    const { outcome } = await experiment(fixture.upload(narrowed));
    expect(outcome.result.variants[0]!.heldOut?.verdict).toBe(HeldOutVerdict.WRONG);
  });
});

test('a client learns the number of held-out shapes but none of the shapes', () => {
  const { heldOutShapes, caseSets } = fixture.planner.judging();
  expect(heldOutShapes).toBe(2);
  expect(caseSets.flatMap(({ shapes }) => shapes).map(formatShape)).not.toContain('1x1x77x64');
});
