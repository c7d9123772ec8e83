/**
 * Runs every kernel of the ladder as a user runs it, on small shapes. This is a short form of `npm run ladder:verify`.
 */
import { afterAll, describe, expect, test } from 'vitest';
import { Outcome, Verdict, type CaseResult } from '@flashcore/shared/contract';
import { formatShape, parseShape, planLaunches, resolveVariant, type Manifest } from '@flashcore/shared/kernels';
import { inFull, missing } from '@flashcore/shared/testing';
import { ladderSteps } from '@flashcore/tools/ladder-steps';
import { Home } from '../support/home.ts';
import { coveringBuilds, fewShapesOf, refusedShapes, variantArguments } from './builds.ts';

const SEEDS = 5;
const home = new Home();
afterAll(() => home[Symbol.asyncDispose]());

const steps = await ladderSteps();
const emulated = steps.filter((step) => step.emulated === true);

test('the ladder has twelve steps, and the Hopper steps run only on the PTX engine', () => {
  expect(steps.map(({ id }) => id)).toEqual([
    'fa_v1_baseline',
    'fa_v2_wmma',
    'flashcore_v5',
    'fa_s512_v3',
    'fa_s512_v3_wmma',
    'fa_tc_s512',
    'flashcore_v6',
    'flashcore_v7',
    'flashcore_v8',
    'flashcore_v9',
    'flashcore_v10',
    'flashcore_v11',
    'flashcore_v12',
  ]);
  expect(steps.filter((step) => step.emulated === 'ptx').map(({ id }) => id)).toEqual([
    'flashcore_v11',
    'flashcore_v12',
  ]);
});

test('the shapes reach every launch of every kernel', () => {
  const launched = (step: Manifest) =>
    fewShapesOf(step).flatMap((shape) =>
      planLaunches(step, resolveVariant(step, {}, { multiprocessors: 58 }), parseShape(shape)).launches.map(
        ({ entry }) => entry,
      ),
    );
  for (const step of emulated)
    expect(new Set(launched(step))).toEqual(new Set(step.launches.map(({ entry }) => entry)));
});

test('coveringBuilds() covers every value of every parameter', () => {
  for (const step of emulated) {
    const built = coveringBuilds(step).map(({ parameters }) => resolveVariant(step, { parameters }).parameters);
    for (const [name, { values, ofDevice }] of Object.entries(step.parameters))
      if (!ofDevice) expect(new Set(built.map((parameters) => parameters[name]))).toEqual(new Set(values));
  }
});

describe.each(emulated.map((step) => [step.id, step] as const))('%s', (id, step) => {
  const [, ...variants] = coveringBuilds(step);
  const [first, ...others] = fewShapesOf(step);

  test(`is correct on ${first} with ${SEEDS} seeds in a complete run`, () => {
    const { response, stderr } = home.runJson([
      'run',
      id,
      '--seeds',
      String(SEEDS),
      '--samples',
      '3',
      '--no-fallback',
      '--shape',
      first!,
    ]);
    const { build, verify, benchmarks, gates } = response.result!.variants[0]!;
    expect(figures(verify!.cases), stderr).toEqual([[first, 'PASS', SEEDS, 'PASS', true]]);
    // Compared only if nvcc is installed. lab/results has nvcc's recorded output (tools/ladder-steps.test.ts).
    expect(
      build!.entries.filter(
        ({ spillStoreBytes, spillLoadBytes, stackBytes }) => spillStoreBytes + spillLoadBytes + stackBytes > 0,
      ),
    ).toEqual([]);
    expect(benchmarks.map(({ simulated }) => simulated)).toEqual([true, true]);
    expect(
      gates.filter(
        ({ gateId, verdict }) => ['latency', 'speedup_sdpa'].includes(gateId) && verdict !== Verdict.NOT_MEASURED,
      ),
    ).toEqual([]);
  });

  test('is correct on the inputs that reveal known mistakes', () => {
    const { response, stderr } = home.runJson(['verify', id, '--cases', 'probes', '--seeds', '1']);
    const { probes } = response.result!.variants[0]!.verify!;
    expect(
      probes.map(({ verdict, inputs }) => [Verdict[verdict], inputs.length > 5]),
      stderr,
    ).toEqual(probes.map(() => ['PASS', true]));
    // Kernels with masks or separate key lengths have more than two probes.
    expect(probes.length).toBeGreaterThanOrEqual(2);
  });

  test(`is correct on ${others.join(', ')}`, () => {
    const { response, stderr } = home.runJson([
      'verify',
      id,
      '--seeds',
      String(SEEDS),
      ...others.flatMap((shape) => ['--shape', shape]),
    ]);
    expect(figures(response.result!.variants[0]!.verify!.cases), stderr).toEqual(
      others.map((shape) => [shape, 'PASS', SEEDS, 'PASS', true]),
    );
  });

  test.each(
    variants.map(
      (build) =>
        [
          variantArguments(build)
            .filter((each) => each !== '--set')
            .join(' '),
          build,
        ] as const,
    ),
  )('%s', (_, build) => {
    // A build that fails parity is wrong in a few of ten thousand elements. These seeds are known to produce wrong
    // elements.
    const cases = build.failsBecause
      ? ['--shape', '1x4x128x64', ...[1, 2, 3, 4, 5].flatMap((seed) => ['--seed', String(seed)])]
      : ['--shape', '1x1x113x64c', '--seeds', String(SEEDS)];
    const { response, stderr } = home.runJson(['verify', id, ...variantArguments(build), ...cases]);
    expect(Outcome[response.job!.outcome], stderr).toBe(build.failsBecause ? 'WRONG_RESULT' : 'PASSED');
  });
});

const noPtx = missing('nvcc') && missing('clang');

test.skipIf(noPtx).each(inFull(steps, () => false).filter((step) => step.emulated === 'ptx'))(
  '$id, which fibres cannot run, is correct',
  (step) => {
    const shapes = fewShapesOf(step).flatMap((shape) => ['--shape', shape]);
    const { response, stderr } = home.runJson(['verify', step.id, '--seeds', '1', ...shapes], { timeoutMs: 600_000 });
    expect(Outcome[response.job!.outcome], stderr).toBe('PASSED');
  },
  600_000,
);

test.each(steps.map((step) => [step.id, step] as const))(
  '%s refuses head dimension 32 and names the limit',
  (_, step) => {
    expect(refusedShapes(step)).toContainEqual({
      shape: '1x1x64x32',
      because: expect.stringMatching(/head dimensions? 64/) as string,
    });
  },
);

function figures(cases: CaseResult[]) {
  return cases.map(({ shape, verdict, seeds, flashAttentionRule, deterministic }) => [
    formatShape(shape!),
    Verdict[verdict],
    seeds,
    Verdict[flashAttentionRule],
    deterministic,
  ]);
}
