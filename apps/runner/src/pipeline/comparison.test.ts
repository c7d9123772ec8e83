import { ComparisonVerdict, Outcome, StopReason, TimingMode, Verdict, formatShape, parseShape } from '@flashcore/shared';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openTestPipeline, type TestPipeline } from './testing/run-pipeline.ts';

let pipeline: TestPipeline;

beforeAll(() => {
  pipeline = openTestPipeline();
});

afterAll(() => pipeline.close());

const kernel = (kernelId: string): { source: { case: 'kernelId'; value: string } } => ({ source: { case: 'kernelId', value: kernelId } });
const SMALL = parseShape('1x2x64x64');
const protocol = { minSamples: 6, maxSamples: 6, maxSeconds: 5 };

test('two builds in interleaved blocks: both verified, samples and clocks kept, nothing judged on the emulator', { timeout: 120_000 }, async () => {
  const { outcome, events } = await pipeline.run('benchmark', {
    kernel: kernel('fa_v1_baseline'), settings: { shapes: [SMALL], protocol, against: { kernel: kernel('flashcore_v6'), variant: { parameters: { USE_WMMA: 0n } } } },
  });
  const comparison = outcome.result.variants[0]!.comparison!;
  expect([Outcome[outcome.outcome], ComparisonVerdict[comparison.verdict], comparison.simulated]).toEqual(['PASSED', 'NOT_JUDGED', true]);
  expect([comparison.champion, comparison.candidate].map((build) => [build!.label, Verdict[build!.verified], build!.verifiedDetail])).toEqual([
    ['flashcore_v6 USE_WMMA=0', 'PASS', 'right on 1x2x64x64, 1 seed each, against fp64 on the CPU'], ['fa_v1_baseline', 'PASS', 'right on 1x2x64x64, 1 seed each, against fp64 on the CPU'],
  ]);
  expect(comparison.champion!.buildId).not.toBe(comparison.candidate!.buildId);
  const [shape] = comparison.shapes;
  expect(shape).toMatchObject({
    mode: TimingMode.HOT, blocks: 3, selfBlocks: 3, droppedBlocks: 0, stopReason: StopReason.SAMPLE_LIMIT, clockSource: expect.stringContaining('simulated') as string,
    championOutputCheck: 'right at a secret sample with fresh inputs, and after timing', candidateOutputCheck: 'right at a secret sample with fresh inputs, and after timing',
  });
  expect(shape!.reason).toBe('not judged: emulator times are not GPU times');
  // The emulator counts a cycle a nanosecond: cycles and time say the same.
  expect(shape!.cycles!.ratio).toBeCloseTo(shape!.time!.ratio, 3);
  expect(shape!.samples.map(({ fileName, sizeBytes }) => [fileName, Number(sizeBytes)])).toEqual(
    ['champion.samples', 'candidate.samples', 'self-1.samples', 'self-2.samples', 'champion.sm-clocks', 'candidate.sm-clocks', 'self-1.sm-clocks', 'self-2.sm-clocks'].map((name) => [`${name}.1x2x64x64.hot.f32`, 24]));
  const raw = pipeline.artifacts.get(shape!.samples[0]!.sha256);
  expect(Math.min(...Array.from({ length: 6 }, (_, index) => raw.readFloatLE(4 * index)))).toBeCloseTo(shape!.champion!.minUs, 2);
  const told = events.flatMap((event) => (event.case === 'comparisonProgress' ? [event.value] : []));
  expect([told.some(({ againstItself }) => againstItself), told.filter(({ againstItself }) => !againstItself).reduce((sum, { championUs }) => sum + championUs.length, 0)]).toEqual([true, 6]);
  // The champion's own build and cases are not told as the job's.
  expect(events.filter((event) => event.case === 'buildResult')).toHaveLength(1);
});

test('a champion whose output is wrong is not compared with, and the result says so', { timeout: 120_000 }, async () => {
  const { outcome } = await pipeline.run('benchmark', { kernel: kernel('fa_v1_baseline'), settings: { shapes: [SMALL], protocol, against: { kernel: kernel('nan_output') } } });
  const comparison = outcome.result.variants[0]!.comparison!;
  expect([Outcome[outcome.outcome], ComparisonVerdict[comparison.verdict], comparison.shapes.length, Verdict[comparison.champion!.verified]]).toEqual(['PASSED', 'NOT_JUDGED', 0, 'FAIL']);
  expect(comparison.reason).toMatch(/^not judged: the champion's output is wrong: 1x2x64x64: NAN_OUTPUT/);
});

test('a champion that does not compile is said to be that', { timeout: 120_000 }, async () => {
  const { outcome } = await pipeline.run('benchmark', { kernel: kernel('fa_v1_baseline'), settings: { shapes: [SMALL], protocol, against: { kernel: kernel('syntax_error') } } });
  expect(outcome.result.variants[0]!.comparison!.reason).toMatch(/^not judged: the champion syntax_error could not be built: /);
});

test('an experiment takes the comparison for its regression gate; the champion must take the shapes', { timeout: 120_000 }, async () => {
  const request = { kernel: kernel('fa_v1_baseline'), verify: { seedCount: 1, shapes: [SMALL] }, benchmark: { shapes: [SMALL], protocol, against: { kernel: kernel('fa_v1_baseline') } } };
  const { outcome } = await pipeline.run('runExperiment', request);
  const variant = outcome.result.variants[0]!;
  expect(variant.comparison!.champion!.buildId).toBe(variant.comparison!.candidate!.buildId);
  expect(variant.gates.find(({ gateId }) => gateId === 'regression')).toMatchObject({
    verdict: Verdict.NOT_MEASURED, source: 'interleaved with fa_v1_baseline in this job', detail: expect.stringContaining(`${formatShape(SMALL)}: emulator times`) as string,
  });
  await expect(pipeline.run('benchmark', { kernel: kernel('fa_v1_baseline'), settings: { shapes: [SMALL], against: { kernel: kernel('nobody') } } })).rejects.toMatchObject({ reason: 'KERNEL_NOT_FOUND' });
});
