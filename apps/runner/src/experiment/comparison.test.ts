import {
  ComparisonVerdict,
  FindingKind,
  Outcome,
  StopReason,
  TimingMode,
  Verdict,
  parseSha256,
} from '@flashcore/shared/contract';
import { formatShape, parseShape } from '@flashcore/shared/kernels';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openTestPlanner, rowKernel, type TestPlanner } from './testing/run-job.ts';

/** Text of the output check for a correct build. */
const RIGHT = /^right: every output of \d+ launches, each on inputs of its own$/;

let fixture: TestPlanner;

beforeAll(() => {
  fixture = openTestPlanner();
});

afterAll(() => fixture.close());

const kernel = (kernelId: string): { source: { case: 'kernelId'; value: string } } => ({
  source: { case: 'kernelId', value: kernelId },
});
const SMALL = parseShape('1x2x64x64');
const protocol = { minSamples: 6, maxSamples: 6, maxSeconds: 5 };

test(
  'two builds are verified and timed in interleaved blocks, their samples and clocks are kept, and the emulator judges nothing',
  { timeout: 120_000 },
  async () => {
    const { outcome, events } = await fixture.run('benchmark', {
      kernel: kernel('fa_v1_baseline'),
      settings: {
        shapes: [SMALL],
        protocol,
        champion: { kernel: kernel('flashcore_v6'), variant: { parameters: { USE_WMMA: 0n } } },
      },
    });
    const comparison = outcome.result.variants[0]!.comparison!;
    expect([Outcome[outcome.outcome], ComparisonVerdict[comparison.verdict], comparison.simulated]).toEqual([
      'PASSED',
      'NOT_JUDGED',
      true,
    ]);
    expect(
      [comparison.champion, comparison.candidate].map((build) => [
        build!.label,
        Verdict[build!.verified],
        build!.verifiedDetail,
      ]),
    ).toEqual([
      ['flashcore_v6 USE_WMMA=0', 'PASS', 'right on 1x2x64x64, 1 seed each, against fp64 on the CPU'],
      ['fa_v1_baseline', 'PASS', 'right on 1x2x64x64, 1 seed each, against fp64 on the CPU'],
    ]);
    expect(comparison.champion!.buildId).not.toBe(comparison.candidate!.buildId);
    const [shape] = comparison.shapes;
    expect(shape).toMatchObject({
      mode: TimingMode.HOT,
      blocks: 3,
      selfBlocks: 3,
      droppedBlocks: 0,
      stopReason: StopReason.SAMPLE_LIMIT,
      clockSource: expect.stringContaining('simulated') as string,
      championOutputCheck: expect.stringMatching(RIGHT) as string,
      candidateOutputCheck: expect.stringMatching(RIGHT) as string,
    });
    expect(shape!.reason).toBe('emulator times are not GPU times');
    // The emulator counts one cycle per nanosecond, so cycles and time give the same ratio.
    expect(shape!.cycles!.ratio).toBeCloseTo(shape!.time!.ratio, 3);
    expect(shape!.samples.map(({ fileName, sizeBytes }) => [fileName, Number(sizeBytes)])).toEqual(
      [
        'champion.samples',
        'candidate.samples',
        'self-1.samples',
        'self-2.samples',
        'champion.sm-clocks',
        'candidate.sm-clocks',
        'self-1.sm-clocks',
        'self-2.sm-clocks',
      ].map((name) => [`${name}.1x2x64x64.hot.f32`, 24]),
    );
    const raw = fixture.artifacts.get(parseSha256(shape!.samples[0]!.sha256));
    expect(Math.min(...Array.from({ length: 6 }, (_, index) => raw.readFloatLE(4 * index)))).toBeCloseTo(
      shape!.champion!.minUs,
      2,
    );
    const told = events.flatMap((event) => (event.case === 'comparisonProgress' ? [event.value] : []));
    expect([
      told.some(({ selfCheck }) => selfCheck),
      told.filter(({ selfCheck }) => !selfCheck).reduce((sum, { championUs }) => sum + championUs.length, 0),
    ]).toEqual([true, 6]);
    // The champion's build and cases are not reported as the job's own.
    expect(events.filter((event) => event.case === 'buildResult')).toHaveLength(1);
  },
);

test(
  'a build is not compared with a champion whose output is wrong, and the result says why',
  { timeout: 120_000 },
  async () => {
    const { outcome } = await fixture.run('benchmark', {
      kernel: kernel('fa_v1_baseline'),
      settings: { shapes: [SMALL], protocol, champion: { kernel: kernel('nan_output') } },
    });
    const comparison = outcome.result.variants[0]!.comparison!;
    expect([
      Outcome[outcome.outcome],
      ComparisonVerdict[comparison.verdict],
      comparison.shapes.length,
      Verdict[comparison.champion!.verified],
    ]).toEqual(['PASSED', 'NOT_JUDGED', 0, 'FAIL']);
    expect(comparison.reason).toMatch(/^the champion's output is wrong: 1x2x64x64: NAN_OUTPUT/);
  },
);

/** A correct kernel, except that at S = 128 it traps after more launches than verification makes. */
const FAULTS_AT_128 = rowKernel('faults_at_128', {
  before: '__device__ unsigned launches;',
  body: `if (row.seq_len == 128 && row.number == 0 && atomicAdd(&launches, 1u) >= 8) __trap();
  store_row(row.O, attended(row));`,
});

test(
  'a shape on which a build faults while it is timed has no result in the comparison',
  { timeout: 120_000 },
  async () => {
    const { outcome } = await fixture.run('benchmark', {
      kernel: kernel('fa_v1_baseline'),
      settings: {
        shapes: [SMALL, parseShape('1x1x128x64')],
        protocol,
        champion: { kernel: fixture.upload(FAULTS_AT_128) },
      },
    });
    const { comparison, findings } = outcome.result.variants[0]!;
    expect([
      comparison!.shapes.map(({ shape }) => formatShape(shape!)),
      findings.map(({ kind }) => FindingKind[kind]),
    ]).toEqual([['1x2x64x64'], ['TRAP']]);
    // Both shapes are left out: the first because its times are emulated, the second because the build faulted.
    expect(comparison!.reason).toMatch(/^1x2x64x64: .* \(2 of 2 shapes\)$/);
  },
);

test('if the champion does not compile, the comparison gives that as the reason', { timeout: 120_000 }, async () => {
  const { outcome } = await fixture.run('benchmark', {
    kernel: kernel('fa_v1_baseline'),
    settings: { shapes: [SMALL], protocol, champion: { kernel: kernel('syntax_error') } },
  });
  expect(outcome.result.variants[0]!.comparison!.reason).toMatch(/^the champion syntax_error could not be built: /);
});

test(
  "an experiment's regression gate uses the comparison, and the champion must support the shapes",
  { timeout: 120_000 },
  async () => {
    const request = {
      kernel: kernel('fa_v1_baseline'),
      verify: { seedCount: 1, shapes: [SMALL] },
      benchmark: { shapes: [SMALL], protocol, champion: { kernel: kernel('fa_v1_baseline') } },
      profile: { shape: SMALL },
    };
    const { outcome } = await fixture.run('runExperiment', request);
    const variant = outcome.result.variants[0]!;
    expect(variant.comparison!.champion!.buildId).toBe(variant.comparison!.candidate!.buildId);
    expect(variant.gates.find(({ gateId }) => gateId === 'regression')).toMatchObject({
      verdict: Verdict.NOT_MEASURED,
      source: 'interleaved with fa_v1_baseline in this job',
      detail: expect.stringMatching(/^1x2x64x64 cold: emulator times .* \(2 of 2 comparisons, 1 shape\)$/) as string,
    });
    await expect(
      fixture.run('benchmark', {
        kernel: kernel('fa_v1_baseline'),
        settings: { shapes: [SMALL], champion: { kernel: kernel('nobody') } },
      }),
    ).rejects.toMatchObject({ reason: 'KERNEL_NOT_FOUND' });
  },
);
