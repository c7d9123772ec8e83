/**
 * Tests a search over variants on the emulator, where times decide nothing: what it builds, verifies, ranks, keeps and
 * reuses.
 */
import { create } from '@bufbuild/protobuf';
import { Outcome, TuneRequestSchema, Verdict, type JobResult } from '@flashcore/shared/contract';
import { parseManifest, parseShape } from '@flashcore/shared/kernels';
import { missing } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { planVariants } from '../spec/tune-variants.ts';
import { openTestPlanner, rowKernel, type TestPlanner } from './testing/run-job.ts';

const SHAPE = parseShape('1x1x64x64');

/**
 * A kernel with one thread per row. WRONG=1 leaves out the scale, BROKEN=1 does not compile, and PAD takes up shared
 * memory.
 */
const KERNEL = rowKernel('choices', {
  before: `#if BROKEN
#error "broken"
#endif`,
  keys: `limits:
  - { require: "D == 64", because: "rows have 64 elements" }
  - { require: "PAD != 3", because: "three is refused" }
parameters:
  PAD: { values: [4, 1, 2, 3], default: 4, about: "kilobytes of shared memory that nobody needs" }
  WRONG: { values: [0, 1], default: 0, about: "1: wrong" }
  BROKEN: { values: [0, 1], default: 0, about: "1: does not compile" }`,
  body: `__shared__ volatile char pad[PAD * 1024];
  pad[threadIdx.x] = 1;
  if (WRONG) row.scale = 1.0f;
  store_row(row.O, attended(row));`,
});

let fixture: TestPlanner;
beforeAll(async () => {
  fixture = openTestPlanner();
  await fixture.planner.prepare();
});
afterAll(() => fixture.close());

const rowsOf = (result: JobResult): (string | number | boolean)[][] =>
  result.tune!.variants.map(({ label, rank, verified, dropped, smemBytes }) => [
    label,
    rank,
    Verdict[verified],
    smemBytes,
    (dropped ?? '').split(/[:,]/)[0]!,
  ]);

test.skipIf(missing('nvcc'))(
  'drops variants that do not compile or are wrong, ranks the others by resources, and reuses all results the second time',
  { timeout: 180_000 },
  async () => {
    const request = {
      kernel: fixture.upload(KERNEL),
      shapes: [SHAPE],
      parameters: [
        { name: 'PAD', values: [1n, 2n, 3n] },
        { name: 'WRONG', values: [0n, 1n] },
      ],
    };
    const { outcome, events } = await fixture.run('tune', request);
    expect([Outcome[outcome.outcome], outcome.result.tune!.complete]).toEqual(['PASSED', true]);
    const { tune, variants } = outcome.result;
    expect(rowsOf(outcome.result)).toEqual([
      ['PAD=1 WRONG=0 BROKEN=0', 1, 'PASS', 1024, ''],
      ['PAD=2 WRONG=0 BROKEN=0', 2, 'PASS', 2048, ''],
      ['PAD=1 WRONG=1 BROKEN=0', 0, 'FAIL', 1024, expect.stringMatching(/^wrong on 1x1x64x64/)],
      ['PAD=2 WRONG=1 BROKEN=0', 0, 'FAIL', 2048, expect.stringMatching(/^wrong on 1x1x64x64/)],
    ]);
    expect(tune).toMatchObject({
      winner: 'PAD=1 WRONG=0 BROKEN=0',
      pareto: ['PAD=1 WRONG=0 BROKEN=0'],
      combinations: 6,
      drawn: false,
      simulated: true,
      rankedBy: expect.stringMatching(/times are not GPU times; fa-tui profile --arch sm_90 .*estimates/) as string,
    });
    expect(tune!.variants.some(({ p50Us, reused }) => p50Us !== undefined || reused)).toBe(false);
    // The default variant, PAD=4, is the champion.
    expect([variants[0]!.label, variants[0]!.comparison!.champion!.label]).toEqual([
      'PAD=1 WRONG=0 BROKEN=0',
      'choices PAD=4 WRONG=0 BROKEN=0',
    ]);
    expect(events.filter((event) => event.case === 'tunedVariant').length).toBeGreaterThanOrEqual(4);
    expect(events.filter((event) => event.case === 'buildResult')).toEqual([]);
    // The log says whose lines follow, because the variants are built at the same time.
    const logged = events.flatMap((event) => (event.case === 'logLine' ? [event.value] : []));
    const named = logged.filter(({ source }) => source === 'tune').map(({ text }) => text);
    expect(new Set(named)).toEqual(new Set(rowsOf(outcome.result).map(([label]) => `variant ${String(label)}`)));

    const again = await fixture.run('tune', request);
    expect(rowsOf(again.outcome.result)).toEqual(rowsOf(outcome.result));
    expect(again.outcome.result.tune!.variants.map(({ reused }) => reused)).toEqual([true, true, true, true]);
    const anew = await fixture.run('tune', { ...request, remeasure: true });
    expect(anew.outcome.result.tune!.variants.some(({ reused }) => reused)).toBe(false);
  },
);

test.skipIf(missing('nvcc'))(
  'a variant with a data race, or with a mistake that only a probe finds, is dropped, even if its result is reused',
  { timeout: 120_000 },
  async () => {
    const kernel = fixture.upload({
      'kernel.yaml': KERNEL['kernel.yaml'].replace('WRONG: { values: [0, 1]', 'WRONG: { values: [0, 2, 3]'),
      'choices.cu': KERNEL['choices.cu']
        .replace('if (WRONG)', 'if (WRONG == 2 && row.seq_len % 64 != 0)')
        .replace(
          '= 1;',
          '= 1; if (WRONG == 3) { char* plain = (char*)pad; plain[threadIdx.x] = 1; if (plain[threadIdx.x ^ 33] == 7) return; }',
        ),
    });
    const request = {
      kernel,
      // The champion is the expected winner, so that no comparison runs on the large default shape.
      champion: { kernel, variant: { parameters: { PAD: 1n } } },
      parameters: [
        { name: 'PAD', values: [1n] },
        { name: 'WRONG', values: [0n, 2n, 3n] },
      ],
    };
    for (const again of [false, true]) {
      const { outcome } = await fixture.run('tune', request);
      expect({ again, rows: rowsOf(outcome.result) }).toEqual({
        again,
        rows: [
          ['PAD=1 WRONG=0 BROKEN=0', 1, 'PASS', 1024, ''],
          ['PAD=1 WRONG=2 BROKEN=0', 0, 'FAIL', 1024, expect.stringMatching(/^wrong on 1x2x333x64/)],
          ['PAD=1 WRONG=3 BROKEN=0', 0, 'FAIL', 1024, 'RACE'],
        ],
      });
    }
  },
);

test.skipIf(missing('nvcc'))(
  'a search without a correct variant fails with a reason for each variant, and a stopped search keeps its results',
  { timeout: 120_000 },
  async () => {
    const kernel = fixture.upload(KERNEL);
    const broken = await fixture.run('tune', {
      kernel,
      shapes: [SHAPE],
      parameters: [{ name: 'BROKEN', values: [1n] }],
    });
    expect([Outcome[broken.outcome.outcome], broken.outcome.summary]).toEqual([
      'FAILED',
      `the only variant is not right: ${broken.outcome.result.tune!.variants[0]!.dropped}`,
    ]);
    expect(broken.outcome.result.tune!.variants[0]!.dropped).toMatch(/broken/);
    const controller = new AbortController();
    let kept: JobResult | undefined;
    const stopped = fixture.run(
      'tune',
      { kernel, shapes: [SHAPE], parameters: [{ name: 'PAD', values: [1n, 2n, 4n] }], remeasure: true },
      {
        signal: controller.signal,
        onEvent: ({ case: kind }) => kind === 'tunedVariant' && controller.abort(),
        onKept: (found) => (kept = found),
      },
    );
    await expect(stopped).rejects.toThrow();
    expect(kept!.tune).toMatchObject({ complete: false, simulated: true });
    expect(kept!.tune!.variants.some(({ registers }) => registers > 0)).toBe(true);
  },
);

test.skipIf(missing('nvcc'))(
  'if all variants spill, none is dropped for spilling, and each step of a variant is reported once',
  { timeout: 120_000 },
  async () => {
    const kernel = fixture.upload({
      ...KERNEL,
      'kernel.yaml': KERNEL['kernel.yaml'].replace('limits:', 'compile: { maxrregcount: 24 }\nlimits:'),
    });
    const asked = { kernel, shapes: [SHAPE], parameters: [{ name: 'PAD', values: [1n, 2n] }], remeasure: true };
    const { outcome, events } = await fixture.run('tune', asked);
    expect(outcome.result.tune!.variants.map(({ rank, spillBytes }) => [rank, spillBytes > 0])).toEqual([
      [1, true],
      [2, true],
    ]);
    const told = events.flatMap((event) => (event.case === 'tunedVariant' ? [event.value] : []));
    const steps = told
      .filter(({ label }) => label.startsWith('PAD=1'))
      .map((row) => [row.dropped, row.verified, row.rank]);
    expect(steps).toEqual([
      [expect.stringMatching(/^[\d,]+ bytes of registers spilled$/), Verdict.NOT_MEASURED, 0],
      [undefined, Verdict.PASS, 0],
      [undefined, Verdict.PASS, 1],
    ]);
  },
);

test('variants that exceed the device budget are left out with a reason, and a budget in dollars needs a rate', async () => {
  const asked = { kernel: fixture.upload(KERNEL), shapes: [SHAPE], parameters: [{ name: 'PAD', values: [1n, 2n] }] };
  const { outcome } = await fixture.run('tune', { ...asked, maxSeconds: 1e-6, remeasure: true });
  expect([Outcome[outcome.outcome], outcome.summary, outcome.result.tune!.complete]).toEqual([
    'FAILED',
    'none of 2 variants is right: the budget was used up',
    false,
  ]);
  expect(outcome.result.tune!.variants.map(({ dropped }) => dropped)).toEqual([
    'the budget was used up before it was verified',
    'the budget was used up before it was verified',
  ]);
  await expect(fixture.run('tune', { ...asked, maxUsd: 0.25 })).rejects.toThrow(
    /max_usd: must be 0 on emulator, give seconds or variants: no charge: the emulator/,
  );
});

test('planVariants() takes the grid or draws from it by seed, and refuses values that the manifest does not allow', () => {
  const manifest = parseManifest(KERNEL['kernel.yaml'], 'kernel.yaml');
  const [device] = fixture.planner.devices();
  const plan = (init: object) =>
    planVariants(manifest, create(TuneRequestSchema, init), { device: device!, shapes: [SHAPE] });
  expect(plan({})).toMatchObject({ combinations: 16, drawn: false });
  expect(plan({}).variants).toHaveLength(12); // The manifest refuses PAD=3.
  const labels = (seed: number) => plan({ maxTrials: 5, seed }).variants.map(({ label }) => label);
  expect([labels(1).length, new Set(labels(1)).size]).toEqual([5, 5]);
  expect(labels(1)).toEqual(labels(1));
  expect(labels(1)).not.toEqual(labels(2));
  const parameter = (name: string, ...values: bigint[]) => ({ parameters: [{ name, values }] });
  const typed = KERNEL['kernel.yaml']
    .replace('inputs: fp16', 'inputs: { bf16_when: BF16 }')
    .replace('parameters:', 'parameters:\n  BF16: { values: [0, 1], default: 0, about: dtype }');
  const planTyped = (init: object) =>
    planVariants(parseManifest(typed, 'kernel.yaml'), create(TuneRequestSchema, init), {
      device: device!,
      shapes: [SHAPE],
    });
  const dtypes = (init: object) => [...new Set(planTyped(init).variants.map(({ dtype }) => dtype))];
  expect([dtypes({}), dtypes({ variant: { parameters: { BF16: 1n } } })]).toEqual([['fp16'], ['bf16']]);
  expect(planTyped({}).combinations).toBe(16);
  expect(() => planTyped(parameter('BF16', 0n, 1n))).toThrow(/the dtype of the tensors as it is, got fp16 and bf16/);
  expect(() => plan(parameter('PADD', 1n))).toThrow(/PADD: the kernel has no such parameter.*PAD/);
  expect(() => plan(parameter('PAD', 9n))).toThrow(/PAD=9: must be of 4, 1, 2, 3/);
  expect(() => plan(parameter('PAD', 3n))).toThrow(/none of 1 combinations takes 1x1x64x64/);
});
