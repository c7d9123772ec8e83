/**
 * Tests the shapes that a run draws if its result may be accepted: nobody knows them in advance, and their inputs cover
 * the dtype's whole range. They detect kernels that are correct only on the cases. The smallest shape on which such a
 * kernel is wrong is reported.
 */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FindingKind, Outcome, Verdict, type JobResult } from '@flashcore/shared/contract';
import {
  attention,
  checkShape,
  formatShape,
  parseCases,
  parseManifest,
  parseShape,
  resolveVariant,
  tensorElements,
  valuesOf,
} from '@flashcore/shared/kernels';
import { inFull } from '@flashcore/shared/testing';
import { REPOSITORY_ROOT } from '../testing/test-runner.ts';
import { openTestPlanner, type TestPlanner } from './testing/run-job.ts';

let fixture: TestPlanner;
beforeAll(() => void (fixture = openTestPlanner()));
afterAll(() => fixture.close());

const LIMITS = { timeout: 300_000 };

/** A kernel by its id; one of kernels/corpus, which has no ids, by its files. */
function kernelOf(id: string) {
  const folder = join(REPOSITORY_ROOT, 'kernels/corpus', id);
  if (!existsSync(folder)) return { source: { case: 'kernelId', value: id } } as const;
  const names = readdirSync(folder);
  return fixture.upload(Object.fromEntries(names.map((name) => [name, readFileSync(join(folder, name), 'utf8')])));
}

/** Runs an experiment on one small case, on which every cheat is correct. */
async function experiment(
  kernelId: string,
  shape = '1x1x64x64',
): Promise<{ outcome: string; result: JobResult; probeCounts: number[] }> {
  const { outcome, events } = await fixture.run('runExperiment', {
    kernel: kernelOf(kernelId),
    noFallback: true,
    verify: { shapes: [parseShape(shape)], seedCount: 1 },
    benchmark: {
      shapes: [parseShape(shape)],
      protocol: { minSamples: 3, maxSamples: 3, maxSeconds: 0.1 },
    },
  });
  const probeCounts = events.flatMap((event) => (event.case === 'verifyProgress' ? event.value.probeCount : []));
  return { outcome: Outcome[outcome.outcome], result: outcome.result, probeCounts };
}

test('trials detect a kernel whose timed launches are right only on inputs from N(0, 1)', LIMITS, async () => {
  const { outcome, result } = await experiment('values_of_timed_launches', '1x8x64x64');
  const [{ verify, findings, benchmarks }] = result.variants as [(typeof result.variants)[number]];
  expect(outcome).toBe('WRONG_RESULT');
  const runs = [...verify!.cases, ...verify!.probes, ...verify!.drawn];
  expect(runs.filter(({ verdict }) => verdict === Verdict.FAIL)).toEqual([]);
  expect(findings[0]!.message).toMatch(/^1x8x64x64: right when verified, wrong when timed: /);
  expect(benchmarks.some(({ outputCheck }) => !outputCheck.startsWith('right'))).toBe(true);
});

test('trials detect a decoding kernel that is right for N(0, 1) where all caches are full', LIMITS, async () => {
  const { outcome, result } = await experiment('values_decode_full_caches', 'B=4,H=16,Hkv=2,Skv=200,D=64');
  const [{ verify, findings }] = result.variants as [(typeof result.variants)[number]];
  expect(outcome).toBe('WRONG_RESULT');
  const runs = [...verify!.cases, ...verify!.probes, ...verify!.drawn];
  expect(runs.filter(({ verdict }) => verdict === Verdict.FAIL)).toEqual([]);
  expect(findings[0]!.message).toMatch(/^B=4.*: right when verified, wrong when timed: /);
});

/** For each kernel a shape, and the distribution that shows its mistake. N(0, 1) does not show it. */
const OF_A_RANGE: Record<string, { shape: string; shows: string }> = {
  values_keys_up_to_8192: { shape: '1x1x64x64', shows: 'largest_keys' },
  values_fp32_as_fp16: { shape: '1x1x64x64', shows: 'mixed_scales' },
  values_decode_first_maximum: { shape: 'B=3,H=2,Hkv=1,Skv=300,D=64', shows: 'few_far' },
  values_softmax_sampled_row: { shape: 'rows=4,N=600', shows: 'lone_elements' },
  values_rmsnorm_sampled_row: { shape: 'rows=4,N=600', shows: 'lone_elements' },
  softmax_first_row_decides: { shape: 'rows=4,N=600', shows: 'rows_apart' },
  rmsnorm_first_row_decides: { shape: 'rows=4,N=600', shows: 'rows_apart' },
  decode_first_sequence_decides: { shape: 'B=3,H=2,Hkv=1,Skv=70,D=64', shows: 'rows_apart' },
  gemm_int8_without_128: { shape: 'M=5,N=7,K=40', shows: 'largest_a' },
};
test.each(Object.keys(OF_A_RANGE))('%s fails on inputs that reach the ends of a dtype', LIMITS, async (kernelId) => {
  const { shape, shows } = OF_A_RANGE[kernelId]!;
  const verdicts: Verdict[] = [];
  for (const seed of ['5eed@normal', `5eed@${shows}`]) {
    const kernel = kernelOf(kernelId);
    const settings = { shapes: [parseShape(shape)], seeds: [seed] };
    const { outcome } = await fixture.run('verify', { kernel, settings });
    verdicts.push(outcome.result.variants[0]!.verify!.cases[0]!.verdict);
  }
  expect(verdicts).toEqual([Verdict.PASS, Verdict.FAIL]);
});

test('the probes of the timed shape detect a kernel that is wrong only on that shape', LIMITS, async () => {
  const { outcome, result, probeCounts } = await experiment('values_of_timed_shapes', '1x1x128x64');
  const [{ verify, findings }] = result.variants as [(typeof result.variants)[number]];
  expect(outcome).toMatch(/WRONG_RESULT|NAN_OUTPUT/);
  expect(verify!.cases.map(({ verdict }) => verdict)).toEqual([Verdict.PASS]);
  expect(
    verify!.probes.filter(({ verdict }) => verdict === Verdict.FAIL).map(({ shape }) => formatShape(shape!)),
  ).toEqual(['1x1x128x64']);
  expect(findings[0]!.message).toMatch(/^1x1x128x64 on .*max_last/);
  // After a finding the drawn shapes are skipped, so the count of probes leaves them out.
  const { length } = verify!.probes;
  expect([probeCounts[0]! > length, probeCounts.at(-1)]).toEqual([true, length]);
});

/** The smallest wrong shape that the search can find for each cheat, and a shape on which the cheat is correct. */
const CHEATS: Record<string, { smallest: RegExp; passes: string }> = {
  shapes_up_to_512_keys: { smallest: /^1x1x513x64$/, passes: '1x1x512x64' },
  // With one batch or one head fewer, the result is correct.
  shapes_up_to_32_heads: {
    smallest: /^(33x1|1x33|2x17|17x2|3x11|11x3|4x9|9x4|5x7|7x5|6x6)x[1-9]\d?x64c?$/,
    passes: '1x32x64x64',
  },
  // On some inputs of 1x1x2x96 the mistake is too small to see.
  shapes_unlisted_head_dim: { smallest: /^1x[1-4]x[2-4]x96$/, passes: '1x1x64x64' },
};

test.each(inFull(Object.keys(CHEATS), (cheat) => cheat === 'shapes_unlisted_head_dim'))(
  '%s passes its cases and fails with the smallest shape on which it is wrong',
  LIMITS,
  async (cheat) => {
    const { smallest, passes } = CHEATS[cheat]!;
    const { outcome, result } = await experiment(cheat);
    expect(outcome).toBe('WRONG_RESULT');
    const { verify, findings } = result.variants[0]!;
    expect(verify!.cases.map(({ verdict }) => verdict)).toEqual([Verdict.PASS]);
    expect(verify!.probes.filter(({ verdict }) => verdict === Verdict.FAIL)).toEqual([]);
    const last = verify!.drawn.at(-1)!;
    expect([last.verdict, last.drawn]).toEqual([Verdict.FAIL, true]);
    expect(last.errorMap!.maxAbsError.length).toBeGreaterThan(0);
    expect(formatShape(last.shape!)).toMatch(smallest);
    expect(result.provenance!.drawnShapes.map(formatShape)).toContain(formatShape(last.foundFrom!));
    const [finding] = findings;
    expect(FindingKind[finding!.kind]).toBe('WRONG_RESULT');
    const [shape, from] = [formatShape(last.shape!), formatShape(last.foundFrom!)];
    expect(finding!.message).toContain(`smallest failing shape ${shape} (found from ${from}): `);
    // Runs the remedy's command, and the same seeds on a shape on which the kernel is correct.
    const seeds = [...finding!.remedy.matchAll(/--seed (\S+)/g)].map(([, seed]) => seed!);
    expect(finding!.remedy).toContain(
      `fa-tui verify ${cheat} --device emulator --shape ${shape} --seed ${seeds[0]} --seed ${seeds[1]}`,
    );
    expect(result.provenance!.seeds).toEqual(expect.arrayContaining(seeds.map((seed) => seed.split('@')[0])));
    const again = await fixture.run('verify', {
      kernel: { source: { case: 'kernelId', value: cheat } },
      settings: { shapes: [parseShape(shape), parseShape(passes)], seeds },
    });
    expect(again.outcome.result.variants[0]!.verify!.cases.map(({ verdict }) => verdict)).toEqual([
      Verdict.FAIL,
      Verdict.PASS,
    ]);
  },
);

test(
  'a probe’s inputs on drawn shapes detect a kernel that is wrong only on such shapes and for such values',
  LIMITS,
  async () => {
    const { outcome, result } = await experiment('values_elsewhere');
    const [{ verify, findings }] = result.variants as [(typeof result.variants)[number]];
    expect(outcome).toBe('WRONG_RESULT');
    expect(verify!.probes.filter(({ verdict }) => verdict === Verdict.FAIL)).toEqual([]);
    expect(verify!.drawn.at(-1)!.verdict).toBe(Verdict.FAIL);
    expect(findings[0]!.remedy).toMatch(/--seed [0-9a-f]+@(?!normal)\w+( --seed [0-9a-f]+(@\w+)?)+$/);
    // The remedy's command repeats the failure, which N(0, 1) does not show.
    const shapes = [verify!.drawn.at(-1)!.shape!];
    const verdicts = await Promise.all(
      [[...findings[0]!.remedy.matchAll(/--seed (\S+)/g)].map(([, text]) => text!), ['ab']].map(async (seeds) => {
        const settings = { shapes, seeds };
        const kernel = { source: { case: 'kernelId', value: 'values_elsewhere' } } as const;
        return (await fixture.run('verify', { kernel, settings })).outcome.result.variants[0]!.verify!.cases[0]!
          .verdict;
      }),
    );
    expect(verdicts).toEqual([Verdict.FAIL, Verdict.PASS]);
    await expect(
      fixture.run('verify', {
        kernel: { source: { case: 'kernelId', value: 'values_elsewhere' } },
        settings: { shapes, seeds: ['ab@aroun_448'] },
      }),
    ).rejects.toThrow(/must name one of normal, .*, got "aroun_448".*around_448/);
  },
);

test(
  'a probe’s inputs in large tensors detect a kernel that is wrong only in such tensors and for such values',
  LIMITS,
  async () => {
    const { outcome, result } = await experiment('values_of_large_shapes');
    const [{ verify, findings }] = result.variants as [(typeof result.variants)[number]];
    expect(outcome).toBe('WRONG_RESULT');
    expect(verify!.probes.filter(({ verdict }) => verdict === Verdict.FAIL)).toEqual([]);
    const last = verify!.drawn.at(-1)!;
    expect([last.verdict, tensorElements(attention(), last.shape!) > 65_536]).toEqual([Verdict.FAIL, true]);
    // In shapes this large, every head repeats the inputs of one head; the remedy's command must do so too.
    const seeds = [...findings[0]!.remedy.matchAll(/--seed (\S+)/g)].map(([, text]) => text!);
    const again = await fixture.run('verify', {
      kernel: { source: { case: 'kernelId', value: 'values_of_large_shapes' } },
      settings: { shapes: [last.shape!], seeds },
    });
    expect(again.outcome.result.variants[0]!.verify!.cases[0]!.verdict).toBe(Verdict.FAIL);
  },
);

test(
  'a kernel whose limits exclude the probes’ shapes gets the probes’ inputs on a shape that it takes',
  LIMITS,
  async () => {
    const { outcome, result } = await experiment('shapes_without_probes', '1x8x64x64');
    const [{ verify, findings }] = result.variants as [(typeof result.variants)[number]];
    expect(outcome).toBe('WRONG_RESULT');
    const cases = parseCases(readFileSync(join(REPOSITORY_ROOT, 'kernels/cases.yaml'), 'utf8'), 'cases.yaml');
    // The kernel takes one shape with a mask, one without, or both.
    const probed = verify!.probes.map(({ verdict, inputs }) => [verdict, inputs.length]);
    expect(probed).toEqual(probed.map(() => [Verdict.FAIL, cases.probes.distributions.length]));
    expect(probed.length).toBeGreaterThan(0);
    expect(findings[0]!.message).toMatch(/ on (inputs|\d+ of \d+ inputs, first) "(outliers|around_448|largest_keys)"/);
  },
);

test('drawn attributes detect a kernel that is correct only for a list of values', LIMITS, async () => {
  const { outcome, result } = await experiment('shapes_listed_attributes');
  const [{ verify }] = result.variants as [(typeof result.variants)[number]];
  expect(outcome).toBe('WRONG_RESULT');
  expect(verify!.probes.filter(({ verdict }) => verdict === Verdict.FAIL)).toEqual([]);
  const { softcap = 0, window = -1 } = valuesOf(verify!.drawn.at(-1)!.shape!);
  expect(softcap > 0 || window > 0).toBe(true);
});

test.each(['values_clamped_to_8_bits', 'values_rounded_to_8_bits'])(
  '%s passes its case and fails on the probes',
  LIMITS,
  async (cheat) => {
    const { outcome, result } = await experiment(cheat);
    expect(outcome).toBe('WRONG_RESULT');
    expect(result.variants[0]!.verify!.probes.some(({ verdict }) => verdict === Verdict.FAIL)).toBe(true);
  },
);

test('a correct kernel passes, and each run draws different shapes and reports them', LIMITS, async () => {
  const runs = [await experiment('flashcore_v6'), await experiment('flashcore_v6')];
  const manifest = parseManifest(readFileSync(join(REPOSITORY_ROOT, 'kernels/flashcore_v6/kernel.yaml'), 'utf8'), 'v6');
  const shapes = runs.map(({ outcome, result }) => {
    expect(outcome, result.variants[0]!.findings.map(({ message }) => message).join('\n')).not.toBe('WRONG_RESULT');
    const { drawn } = result.variants[0]!.verify!;
    expect(drawn.map(({ verdict }) => verdict)).toEqual(drawn.map(() => Verdict.PASS));
    expect(drawn.map(({ errorMap }) => errorMap!.maxAbsError.length)).toEqual(drawn.map(() => 0));
    expect(drawn.map(({ shape }) => formatShape(shape!))).toEqual(result.provenance!.drawnShapes.map(formatShape));
    for (const { shape } of drawn) expect(checkShape(manifest, resolveVariant(manifest), shape!)).toBeUndefined();
    return result.provenance!.drawnShapes;
  });
  expect(shapes[0]!.map(formatShape)).not.toEqual(shapes[1]!.map(formatShape));
  for (const drawn of shapes) {
    expect(drawn.some(({ sequenceLength }) => sequenceLength > 512)).toBe(true);
    expect(drawn.some(({ batch, heads }) => batch * heads > 32)).toBe(true);
    expect(drawn.some(({ causal }) => causal)).toBe(true);
  }
});

test('a plan whose results cannot be accepted draws no shapes', LIMITS, async () => {
  const { outcome } = await fixture.run('runExperiment', {
    kernel: { source: { case: 'kernelId', value: 'fa_v1_baseline' } },
    plan: 'explore',
    verify: { shapes: [parseShape('1x1x64x64')], seedCount: 1 },
    benchmark: { shapes: [parseShape('1x1x64x64')], protocol: { minSamples: 3, maxSamples: 3, maxSeconds: 0.1 } },
  });
  expect(outcome.result.provenance!.drawnShapes).toEqual([]);
  expect(outcome.result.variants[0]!.verify!.drawn).toEqual([]);
});
