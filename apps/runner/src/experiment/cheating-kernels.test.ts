/** Every kernel in kernels/cheating gets the verdict in its manifest: its trick is reported, or has no effect. */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { FindingKind, Outcome, type Finding, type Shape } from '@flashcore/shared/contract';
import { parseManifest, parseShape } from '@flashcore/shared/kernels';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { inFull, missing } from '@flashcore/shared/testing';
import { openTestPlanner, type TestPlanner } from './testing/run-job.ts';

const FOLDER = fileURLToPath(new URL('../../../../kernels/cheating', import.meta.url));
const SHAPE = parseShape('1x1x64x64');
/**
 * Shapes other than SHAPE: three heads, so that a timed launch makes two of them from one drawn head, and a shape of
 * another problem.
 */
const OWN_SHAPES: Record<string, Shape> = {
  related_heads_in_8_bits: parseShape('1x3x64x64'),
  heaviest_weights: parseShape('rows=16,N=1024'),
};
// The short run has one kernel per way to detect a trick. faulty-kernels.test.ts has the endless kernels.
const SHORT = [
  ...['changed_inputs', 'host_include', 'incbin', 'lucky_reads', 'old_output', 'pinned_l2', 'remembered_inputs'],
  ...['right_when_checked', 'small_values', 'related_heads_in_8_bits', 'heaviest_weights', 'unlikely_keys'],
];
// drawn-shapes.test.ts has the cheats that only drawn shapes and probes detect. results_in_globals is left out, because
// each timed launch has different inputs and the kernel can rarely use a result that it kept. Its variables are refused
// instead.
const ELSEWHERE = /^(shapes|values)_|^results_in_globals$/;
const cheats = inFull(
  readdirSync(FOLDER, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !ELSEWHERE.test(entry.name))
    .map(({ name }) => {
      const { faulty } = parseManifest(readFileSync(join(FOLDER, name, 'kernel.yaml'), 'utf8'), name);
      return { id: name, wanted: FindingKind[faulty!.finding].replace('UNSPECIFIED', 'NONE') };
    }),
  ({ id }) => SHORT.includes(id),
);

/**
 * Expected messages about kernels that only one check can detect. Any other finding would not show that this check
 * works.
 */
const REASONS: Record<string, RegExp> = {
  right_when_checked:
    /right when verified, wrong when timed: in \d+ samples of \d+ launches; the first: \d+ of \d+ elements/,
  first_launch_works:
    /right when verified, wrong when timed: in \d+ samples of \d+ launches; the first: \d+ of \d+ elements/,
  small_values: /its norm is less than half of the reference's|times what rounding to the dtype explains/,
  related_heads_in_8_bits: /right when verified, wrong when timed: .*times what rounding explains/,
  heaviest_weights: /times what rounding to the dtype explains/,
  unlikely_keys: /times what rounding to the dtype explains \(limit 2\.00\)/,
  // The PTX engine itself reports the read in front of K.
  lucky_reads: /right by luck: with other bytes before and after the tensors|read 2 bytes, 128 bytes before K/,
};

// Kernels that need the fibre engine, because PTX has no host code or because the PTX engine would report a read of
// unwritten memory before the trick.
const ON_FIBRES = ['first_launch_works', 'incbin', 'remembered_inputs'];

// Kernels that run in a plan with probes, because rounding on N(0, 1) hides their trick in about two runs of three. The
// other kernels run in a plan without probes, which would detect some of them before the intended check does.
const FOUND_BY_PROBES = ['unlikely_keys'];

let fixture: TestPlanner;
let fibres: TestPlanner;
beforeAll(() => {
  fixture = openTestPlanner();
  fibres = openTestPlanner(undefined, { emulatorEngine: 'fibres' });
});
afterAll(() => Promise.all([fixture.close(), fibres.close()]));

/** Verifies and times a kernel in an experiment. */
async function run(kernelId: string): Promise<{ outcome: string; findings: Finding[]; checks: string[] }> {
  const shape = OWN_SHAPES[kernelId] ?? SHAPE;
  const { outcome } = await (ON_FIBRES.includes(kernelId) ? fibres : fixture).run('runExperiment', {
    kernel: { source: { case: 'kernelId', value: kernelId } },
    noFallback: true,
    plan: FOUND_BY_PROBES.includes(kernelId) ? 'merge' : 'explore',
    verify: { shapes: [shape], seedCount: 5 },
    benchmark: { shapes: [shape], protocol: { minSamples: 40, maxSamples: 60, maxSeconds: 0.5 } },
    profile: { shape },
  });
  const [variant] = outcome.result.variants;
  return {
    outcome: Outcome[outcome.outcome],
    findings: variant!.findings,
    checks: variant!.benchmarks.map(({ outputCheck }) => outputCheck),
  };
}

// Kernels that the sandbox refuses. Without a sandbox they compile.
const BOXED = ['incbin'];
const isBoxed = ({ id }: (typeof cheats)[number]): boolean => BOXED.includes(id);
// Retried, because one kernel is detected by its time, which other tests running at the same time may change.
const LIMITS = { timeout: 120_000, retry: 2 };

test.skipIf(missing('bubblewrap')).each(cheats.filter(isBoxed))('$id: $wanted', LIMITS, judge);
test.each(cheats.filter((each) => !isBoxed(each)))('$id: $wanted', LIMITS, judge);

async function judge({ id, wanted }: (typeof cheats)[number]): Promise<void> {
  const { outcome, findings, checks } = await run(id);
  const kinds = findings.map(({ kind }) => FindingKind[kind]);
  if (wanted === 'NONE') expect([kinds, checks.filter((check) => !check.startsWith('right'))]).toEqual([[], []]);
  else expect([outcome !== 'PASSED', ...kinds], checks.join('\n')).toEqual(expect.arrayContaining([true, wanted]));
  const reason = REASONS[id];
  if (reason) expect(findings.map(({ message }) => message).join('\n')).toMatch(reason);
}

test.skipIf(missing('nvcc'))(
  'a plan that allows acceptance refuses a kernel with memory that outlives a launch, before anything runs',
  LIMITS,
  async () => {
    const { outcome } = await fixture.run('runExperiment', {
      kernel: { source: { case: 'kernelId', value: 'results_in_globals' } },
      noFallback: true,
      plan: 'merge',
      verify: { shapes: [SHAPE], seedCount: 1 },
      benchmark: { shapes: [SHAPE], protocol: { minSamples: 10, maxSamples: 10, maxSeconds: 0.5 } },
      profile: { shape: SHAPE },
    });
    const [variant] = outcome.result.variants;
    expect([
      Outcome[outcome.outcome],
      variant!.findings.map(({ kind }) => FindingKind[kind]),
      variant!.benchmarks,
    ]).toEqual(['FAILED', ['KEEPS_STATE'], []]);
    expect(variant!.findings[0]!.message).toMatch(/^the build has memory that outlives a launch: \w+/);
  },
);
