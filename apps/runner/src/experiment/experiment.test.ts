import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import {
  ArtifactKind,
  Outcome,
  StopReason,
  TimingMode,
  Verdict,
  BuildRequestSchema,
  FlashcoreError,
  parseSha256,
  RunExperimentRequestSchema,
  VerifyRequestSchema,
  type JobResult,
  Phase,
} from '@flashcore/shared/contract';
import { formatShape, parseShape } from '@flashcore/shared/kernels';
import { ALL_TESTS, edited, missing } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { TEST_HOST, withoutPriorities } from '../testing/test-host.ts';
import { temporaryFolder } from '../testing/test-runner.ts';
import type { JobOutcome } from '../jobs/job-context.ts';
import { PROTOCOL_VERSION } from '../spec/benchmark-protocol.ts';
import { openTestPlanner, withoutBoxWarning, rowKernel, type TestPlanner } from './testing/run-job.ts';

let fixture: TestPlanner;
/** Without a shared build cache, the first build really compiles. */
let compiling: TestPlanner;

beforeAll(async () => {
  fixture = openTestPlanner();
  compiling = openTestPlanner(undefined, { host: { ...TEST_HOST, buildCache: undefined } });
  await fixture.planner.prepare();
});

afterAll(() => Promise.all([fixture.close(), compiling.close()]));

const kernel = (kernelId: string): { source: { case: 'kernelId'; value: string } } => ({
  source: { case: 'kernelId', value: kernelId },
});
const SMALL = parseShape('1x2x64x64');

// A kernel that is right without tensor cores and wrong with USE_WMMA=1. It uses no tensor cores itself. Its limits
// keep the shapes that are drawn for an experiment small.
const TOGGLED = rowKernel('toggled', {
  keys: `limits:
  - { require: "D == 64", because: "rows have 64 elements" }
  - { require: "S <= 128 && B * H <= 4", because: "larger shapes take the emulator longer" }
parameters: { USE_WMMA: { values: [1, 0], default: 1, about: "1: wrong" } }`,
  body: `RowState state = attended(row);
  if (USE_WMMA) state.row_sum *= 2.0f;
  store_row(row.O, state);`,
});

/** A small kernel that no other test compiles. */
const rightKernel = (id: string) =>
  rowKernel(id, {
    keys: 'limits: [{ require: "D == 64", because: "rows have 64 elements" }]',
    body: 'store_row(row.O, attended(row));',
  });

test.skipIf(missing('nvcc'))(
  'a build reports resources for sm_89 and streams compiler output, and a repeat comes from the cache in 50 ms',
  { timeout: 120_000 },
  async () => {
    const first = await compiling.run('build', { kernel: kernel('fa_v1_baseline') });
    const second = await compiling.run('build', { kernel: kernel('fa_v1_baseline') });
    const [one, two] = [first, second].map(({ outcome }) => outcome.result.variants[0]!.build!);
    expect(one!.entries).toMatchObject([
      {
        entry: 'fa_v1_baseline',
        arch: 'sm_89',
        spillStoreBytes: 0,
        staticSmemBytes: 18048,
        threadsPerCta: 128,
        occupancyLimiter: 'shared memory',
      },
    ]);
    expect(one!.runs.map(({ compiler, target, exitCode }) => [compiler, target, exitCode])).toEqual([
      ['nvcc', 'sm_89', 0],
    ]);
    expect(first.events.some((event) => event.case === 'logLine' && event.value.source === 'nvcc')).toBe(true);
    expect(JSON.stringify(one!.runs.map((run) => run.arguments))).not.toContain(compiling.dataDirectory);
    expect([one!.cacheHit, two!.cacheHit, two!.buildId === one!.buildId]).toEqual([false, true, true]);
    // A loaded machine may exceed the limit once, but not in every try.
    const again = async (): Promise<number> =>
      (await compiling.run('build', { kernel: kernel('fa_v1_baseline') })).outcome.result.variants[0]!.build!.seconds;
    await expect.poll(again, { interval: 100, timeout: 5_000 }).toBeLessThan(0.05);
  },
);

test(
  'a waiting job and its champion are compiled ahead, and the job finds both in the cache',
  { timeout: 300_000 },
  async () => {
    const [waiting, champion] = ['waiting', 'champion'].map((id) => compiling.upload(rightKernel(id)));
    const request = create(RunExperimentRequestSchema, {
      kernel: waiting!,
      benchmark: { shapes: [SMALL], champion: { kernel: champion! } },
    });
    await compiling.planner.prepare();
    const planned = compiling.planner.planJob('runExperiment', request, () => 0);
    if (!planned.body) throw new Error('a runner of its own keeps no request');
    using folder = temporaryFolder();
    withoutPriorities(folder.path);
    await planned.compileAhead!(new AbortController().signal);
    vi.unstubAllEnvs();
    for (const uploaded of [waiting, champion]) {
      const { outcome } = await compiling.run('build', { kernel: uploaded! });
      expect(outcome.result.variants[0]!.build!.cacheHit).toBe(true);
    }
  },
);

test('every source that was compiled is kept with the build', { timeout: 60_000 }, async () => {
  const { outcome } = await fixture.run('build', { kernel: kernel('fa_v1_baseline') });
  const sources = outcome.result.variants[0]!.build!.artifacts.filter(({ kind }) => kind === ArtifactKind.SOURCE);
  expect(sources.map(({ fileName }) => fileName)).toEqual(expect.arrayContaining(['fa_v1_baseline.cu']));
  expect(fixture.artifacts.get(parseSha256(sources[0]!.sha256)).toString()).toContain('__global__');
});

test('a kernel whose dynamic and static shared memory are more than 48 KiB together is launched', async () => {
  const files = rowKernel('shared_49_kib', {
    keys: 'limits: [{ require: "D == 64", because: "rows have 64 elements" }]',
    body: `__shared__ volatile float own[256];
  own[threadIdx.x] = row.scale;
  store_row(row.O, attended(row));`,
  });
  const manifest = edited(files['kernel.yaml'], 'block: [64, 1, 1],', 'block: [64, 1, 1], shared_bytes: 49152,');
  const { outcome } = await fixture.run('verify', {
    kernel: fixture.upload({ ...files, 'kernel.yaml': manifest }),
    settings: { shapes: [SMALL], seedCount: 1 },
  });
  expect(Outcome[outcome.outcome]).toBe('PASSED');
});

test(
  'a build_id selects the cached build with its sources and variant, and allows no other variant',
  { timeout: 120_000 },
  async () => {
    const build = async (request: Parameters<typeof fixture.run<'build'>>[1]) =>
      (await fixture.run('build', request)).outcome.result.variants[0]!.build!;
    const byId = (value: string) => ({ source: { case: 'buildId' as const, value } });
    const { buildId } = await build({
      kernel: fixture.upload(TOGGLED),
      variant: { parameters: { USE_WMMA: 0n }, maxRegisters: 128 },
    });
    const { outcome } = await fixture.run('verify', {
      kernel: byId(buildId),
      settings: { shapes: [SMALL], seedCount: 1 },
    });
    const [variant] = outcome.result.variants;
    expect([Outcome[outcome.outcome], variant!.label, variant!.build!.buildId, variant!.build!.cacheHit]).toEqual([
      'PASSED',
      'USE_WMMA=0 maxrregcount=128',
      buildId,
      true,
    ]);

    await expect(fixture.run('build', { kernel: byId('0'.repeat(64)) })).rejects.toMatchObject({
      reason: 'BUILD_NOT_FOUND',
    });
    await expect(fixture.run('build', { kernel: byId(buildId), variant: { maxRegisters: 64 } })).rejects.toMatchObject({
      reason: 'INVALID_REQUEST',
      violations: [{ field: 'variant' }],
    });
  },
);

test('a build_id is refused if its sources now make another build', { timeout: 120_000 }, async () => {
  const { outcome } = await fixture.run('build', { kernel: kernel('fa_v1_baseline') });
  const { buildId } = outcome.result.variants[0]!.build!;
  const stale = 'f'.repeat(64);
  fixture.builds.keep(stale, fixture.builds.find(buildId)!);
  await expect(
    fixture.run('verify', {
      kernel: { source: { case: 'buildId', value: stale } },
      settings: { shapes: [SMALL], seedCount: 1 },
    }),
  ).rejects.toMatchObject({ reason: 'BUILD_NOT_FOUND', metadata: { build_id: stale, found: buildId } });
});

test.skipIf(missing('nvcc'))('PTX that a request wants to keep becomes an artifact', { timeout: 60_000 }, async () => {
  const { outcome } = await fixture.run('build', { kernel: kernel('fa_v1_baseline'), variant: { keepPtx: true } });
  const ptx = outcome.result.variants[0]!.build!.artifacts.find(
    ({ fileName }) => fileName === 'fa_v1_baseline.sm_89.ptx',
  );
  expect(fixture.artifacts.get(parseSha256(ptx!.sha256)).toString()).toContain('.visible .entry fa_v1_baseline');
});

// The real cuobjdump is not on every host that has nvcc.
const FAKE_CUOBJDUMP =
  '#!/bin/sh\n[ "$1" = -sass ] || exit 0\necho ".target sm_89"; grep -q fa_v1_baseline "$2" && echo "Function : fa_v1_baseline"\n';

test.skipIf(missing('nvcc'))(
  'SASS that a request wants to keep becomes an artifact; if cuobjdump fails, the job reports it and the build still succeeds',
  { timeout: 60_000 },
  async () => {
    using tools = temporaryFolder();
    const path = process.env['PATH'];
    const build = async (script: string) => {
      writeFileSync(join(tools.path, 'cuobjdump'), script, { mode: 0o755 });
      vi.stubEnv('PATH', `${tools.path}:${path}`);
      const { outcome, events } = await fixture.run('build', {
        kernel: kernel('fa_v1_baseline'),
        variant: { keepSass: true },
      });
      vi.unstubAllEnvs();
      const sass = outcome.result.variants[0]!.build!.artifacts.find(({ kind }) => kind === ArtifactKind.SASS);
      return [
        Outcome[outcome.outcome],
        sass && [sass.fileName, fixture.artifacts.get(parseSha256(sass.sha256)).toString()],
        withoutBoxWarning(events).flatMap((event) => (event.case === 'warning' ? event.value.message : [])),
      ];
    };
    expect(await build(FAKE_CUOBJDUMP)).toEqual([
      'PASSED',
      ['fa_v1_baseline.sm_89.sass', '.target sm_89\nFunction : fa_v1_baseline\n'],
      [],
    ]);
    expect(
      await build('#!/bin/sh\n[ "$1" = -sass ] || exit 0\necho "cuobjdump fatal: no nvdisasm" >&2; exit 1\n'),
    ).toEqual([
      'PASSED',
      undefined,
      ['No SASS listing was kept: cuobjdump ended with exit status 1: cuobjdump fatal: no nvdisasm'],
    ]);
  },
);

test(
  'verify reports cases in the requested order, repeats a result from its seeds, and lists the seeds',
  { timeout: 120_000 },
  async () => {
    const shapes = ['1x1x113x64c', '1x2x64x64'].map(parseShape);
    const request = { kernel: kernel('fa_v1_baseline'), settings: { shapes, seeds: ['0x1234abcd', '77'] } };
    const [one, two] = [await fixture.run('verify', request), await fixture.run('verify', request)].map(
      ({ outcome }) => outcome,
    );
    const figures = (outcome: typeof one): unknown =>
      outcome!.result.variants[0]!.verify!.cases.map(({ shape, verdict, seeds, maxAbsError, deterministic }) => [
        formatShape(shape!),
        Verdict[verdict],
        seeds,
        maxAbsError,
        deterministic,
      ]);
    expect(figures(one)).toEqual([
      ['1x1x113x64c', 'PASS', 2, expect.any(Number), true],
      ['1x2x64x64', 'PASS', 2, expect.any(Number), true],
    ]);
    expect(figures(two)).toEqual(figures(one));
    // The kernel computes 32 query rows per CTA.
    expect(one!.result.variants[0]!.verify!.cases[1]!.errorMap).toMatchObject({
      tileRows: 32,
      worstIndex: expect.any(Array) as unknown,
    });
    expect(one!.result.provenance?.seeds).toEqual(['1234abcd', '77']);
  },
);

test(
  'an experiment on the emulator gives every gate a verdict, marks times as simulated, and passes',
  { timeout: 120_000 },
  async () => {
    const { outcome } = await fixture.run('runExperiment', {
      kernel: fixture.upload(TOGGLED),
      variant: { parameters: { USE_WMMA: 0n } },
      verify: { seedCount: 1, shapes: [SMALL] },
      benchmark: { shapes: [SMALL], protocol: { minSamples: 5, maxSamples: 20, maxSeconds: 0.5 } },
      profile: { shape: SMALL },
    });
    const [variant] = outcome.result.variants;
    expect(Outcome[outcome.outcome], variant!.findings[0]?.message).toBe('PASSED');
    expect(outcome.result.prechecks.map(({ check, verdict }) => [check, Verdict[verdict]])).toEqual([
      ['inputs', 'PASS'],
      ['accumulate', 'PASS'],
      ['shapes', 'PASS'],
      ['causal', 'PASS'],
    ]);
    expect(
      variant!.benchmarks.map(({ simulated, valid, tflops, outputCheck }) => [simulated, valid, tflops, outputCheck]),
    ).toEqual(
      Array.from({ length: 2 }, () => [
        true,
        false,
        undefined,
        expect.stringMatching(/^right: every output of \d+ launches, each on inputs of its own$/) as string,
      ]),
    );
    expect(variant!.gates.every(({ verdict, detail }) => verdict !== Verdict.UNSPECIFIED && detail !== '')).toBe(true);
    expect(variant!.gates.find(({ gateId }) => gateId === 'latency')?.detail).toContain(
      'emulator times are not GPU times',
    );
    expect(outcome.result.costUsd).toBeUndefined();
  },
);

test(
  'a benchmark of one sample ends at its sample limit, because one sample has no interval that could converge',
  { timeout: 120_000 },
  async () => {
    const { outcome } = await fixture.run('benchmark', {
      kernel: kernel('fa_v1_baseline'),
      settings: { shapes: [SMALL], protocol: { minSamples: 1, maxSamples: 1, modes: [TimingMode.HOT] } },
    });
    expect(
      outcome.result.variants[0]!.benchmarks.map(({ latency, stopReason }) => [
        latency!.samples,
        StopReason[stopReason],
      ]),
    ).toEqual([[1, 'SAMPLE_LIMIT']]);
  },
);

test('a manifest whose source is not in its folder is refused before a job exists, with its line and the nearest file', () => {
  const refused = (files: Record<string, string>): unknown => {
    const uploaded = fixture.upload(files);
    return () => fixture.planner.planJob('build', create(BuildRequestSchema, { kernel: uploaded }), () => 0);
  };
  const line = TOGGLED['kernel.yaml'].split('\n').findIndex((text) => text.startsWith('source:')) + 1;
  const { 'toggled.cu': source, ...manifest } = TOGGLED;
  const message = `kernel.yaml:${line}: source: must be a file of the kernel's folder, got "toggled.cu"`;
  expect(refused(manifest)).toThrow(
    expect.objectContaining({ reason: 'INVALID_MANIFEST', message: `${message}: it has no source` }),
  );
  expect(refused({ ...manifest, 'togled.cu': source })).toThrow(
    expect.objectContaining({ message: `${message} (did you mean "togled.cu"?)` }),
  );
});

test('a manifest with a launch that no device allows is refused before a job exists, even for a build', () => {
  const tooWide = TOGGLED['kernel.yaml'].replace('block: [64, 1, 1]', 'block: [2048, 1, 1]');
  const uploaded = fixture.upload({ ...TOGGLED, 'kernel.yaml': tooWide });
  const compile = (): unknown =>
    fixture.planner.planJob('build', create(BuildRequestSchema, { kernel: uploaded }), () => 0);
  expect(compile).toThrow(
    expect.objectContaining({
      reason: 'INVALID_MANIFEST',
      message: expect.stringContaining('launches[0].block[0]: must be an integer of 1 to 1024, got 2048') as string,
    }),
  );
});

if (ALL_TESTS)
  test(
    'if a hard gate fails, the result also has the variant without tensor cores, even for an uploaded kernel',
    { timeout: 120_000 },
    async () => {
      const { outcome } = await fixture.run('runExperiment', {
        kernel: fixture.upload(TOGGLED),
        verify: { seedCount: 1, shapes: [parseShape('1x4x128x64')] },
        benchmark: { shapes: [SMALL], protocol: { maxSeconds: 0.2 } },
        profile: { shape: SMALL },
      });
      const variants = outcome.result.variants.map(({ fallback, label, verify, benchmarks }) => [
        fallback,
        label,
        verify?.passedCases,
        benchmarks.length,
      ]);
      expect([variants, Outcome[outcome.outcome]]).toEqual([
        [
          [false, 'USE_WMMA=1', 0, 0],
          [true, 'USE_WMMA=0', 1, 2],
        ],
        'WRONG_RESULT',
      ]);
    },
  );

test(
  'a fallback that is stopped leaves the verdict on the requested variant, which was decided before it began',
  { timeout: 120_000 },
  async () => {
    const controller = new AbortController();
    const [decided, kept] = [[] as JobOutcome[], [] as JobResult[]];
    const running = fixture.run(
      'runExperiment',
      {
        kernel: fixture.upload(TOGGLED),
        verify: { seedCount: 1, shapes: [SMALL] },
        benchmark: { shapes: [SMALL] },
        profile: { shape: SMALL },
      },
      {
        signal: controller.signal,
        onEvent: ({ case: event }) => {
          if (event === 'buildResult' && decided.length > 0) controller.abort(new Error('cancelled'));
        },
        onDecided: (end) => decided.push(end),
        onKept: (result) => kept.push(result),
      },
    );
    await expect(running).rejects.toThrow('cancelled');
    expect(decided.map(({ outcome, result }) => [Outcome[outcome], result.variants.length])).toEqual([
      ['WRONG_RESULT', 1],
    ]);
    expect(kept.map(({ variants, acceptability }) => [variants.length, acceptability?.possible])).toEqual([[2, false]]);
  },
);

test('wrong output skips the benchmark, and the gates say why', { timeout: 120_000 }, async () => {
  const { outcome } = await fixture.run('runExperiment', {
    kernel: kernel('nan_output'),
    verify: { seedCount: 1, shapes: [SMALL] },
  });
  const [variant] = outcome.result.variants;
  expect(variant!.benchmarks).toEqual([]);
  expect(variant!.gates.find(({ gateId }) => gateId === 'latency')?.detail).toBe('verification failed');
  const { phaseTimes, deviceSeconds } = outcome.result;
  expect(phaseTimes.map(({ phase }) => Phase[phase])).toEqual(['PRECHECK', 'BUILD', 'VERIFY', 'GATES']);
  // The phases follow one another, and together take no longer than the job.
  const ends = phaseTimes.map(({ startSeconds, seconds }) => startSeconds + seconds);
  expect(phaseTimes.every(({ startSeconds }, index) => startSeconds >= (ends[index - 1] ?? 0))).toBe(true);
  expect(ends.at(-1)).toBeLessThanOrEqual(deviceSeconds);
  expect(phaseTimes.every(({ seconds, waitSeconds }) => seconds > 0 && waitSeconds <= seconds)).toBe(true);
});

test.each([
  ['KERNEL_NOT_FOUND', { kernel: kernel('flashcore_v66') }],
  ['SHAPE_UNSUPPORTED', { kernel: kernel('fa_v1_baseline'), settings: { shapes: [parseShape('1x1x64x128')] } }],
  ['INVALID_VARIANT', { kernel: kernel('flashcore_v6'), variant: { parameters: { USE_WMMA: 7n } } }],
  ['INVALID_REQUEST', { kernel: kernel('fa_v1_baseline'), options: { deviceId: 'gpu9' } }],
] as const)('planJob() throws %s at once', (reason, request) => {
  expect(refusalOf(request)).toBe(reason);
});

test.skipIf(missing('nvcc'))('planJob() throws ARCH_UNSUPPORTED at once', () => {
  expect(refusalOf({ kernel: kernel('fa_v1_baseline'), variant: { arch: 'sm_99' } })).toBe('ARCH_UNSUPPORTED');
});

function refusalOf(request: object): string | false {
  const error = caught(() => fixture.planner.planJob('verify', create(VerifyRequestSchema, request as never), () => 0));
  return error instanceof FlashcoreError && error.reason;
}

test('a cancelled job rejects within two seconds', { timeout: 60_000 }, async () => {
  const controller = new AbortController();
  const verifying = Promise.withResolvers<void>();
  const running = fixture.run(
    'verify',
    { kernel: kernel('endless_loop'), settings: { shapes: [SMALL], seedCount: 1 } },
    {
      signal: controller.signal,
      onEvent: (payload) => {
        if (payload.case === 'phaseStarted' && payload.value.phase === Phase.VERIFY) verifying.resolve();
      },
    },
  );
  await verifying.promise;
  const cancelled = performance.now();
  controller.abort(new Error('cancelled'));
  await expect(running).rejects.toThrow('cancelled');
  expect(performance.now() - cancelled).toBeLessThan(2_000);
});

if (ALL_TESTS)
  test(
    'a stopped experiment keeps its build, its cases, the shapes that were timed, and its provenance',
    { timeout: 120_000 },
    async () => {
      const controller = new AbortController();
      const shapes = [SMALL, parseShape('1x1x128x64')];
      const found: JobResult[] = [];
      const told: string[] = [];
      await expect(
        fixture.run(
          'runExperiment',
          {
            kernel: kernel('fa_v1_baseline'),
            verify: { seedCount: 1, shapes },
            benchmark: { shapes, protocol: { minSamples: 5, maxSamples: 20, maxSeconds: 0.3 } },
          },
          {
            signal: controller.signal,
            onEvent: ({ case: event }) => {
              told.push(event ?? '');
              if (told.filter((each) => each === 'benchmarkResult').length === 2)
                controller.abort(new Error('cancelled'));
            },
            onKept: (result) => found.push(result),
          },
        ),
      ).rejects.toThrow('cancelled');
      expect(found).toHaveLength(1);
      const [{ provenance, variants }] = found as [JobResult];
      expect(
        variants.map(({ build, verify, benchmarks }) => [
          build?.succeeded,
          verify?.passedCases,
          benchmarks.map(({ shape, mode }) => `${formatShape(shape!)} ${TimingMode[mode]}`),
        ]),
      ).toEqual([[true, 2, ['1x2x64x64 COLD', '1x2x64x64 HOT']]]);
      expect(provenance).toMatchObject({
        device: { deviceId: fixture.planner.devices()[0]!.deviceId },
        protocol: PROTOCOL_VERSION,
        sourceDigest: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
      });
      // One seed for the verification, two for its drawn shapes, and one for the heads of each timed shape's inputs.
      expect(provenance?.seeds).toHaveLength(1 + 2 + shapes.length);
    },
  );

test(
  'a stopped verification keeps the cases that ran, smallest first, and lists those that did not run',
  { timeout: 60_000 },
  async () => {
    const controller = new AbortController();
    const found: JobResult[] = [];
    await expect(
      fixture.run(
        'verify',
        { kernel: kernel('fa_v1_baseline'), settings: { shapes: [parseShape('1x1x128x64'), SMALL], seedCount: 1 } },
        {
          signal: controller.signal,
          onEvent: ({ case: event }) => event === 'caseResult' && controller.abort(new Error('cancelled')),
          onKept: (result) => found.push(result),
        },
      ),
    ).rejects.toThrow('cancelled');
    expect(found[0]?.variants[0]?.verify).toMatchObject({
      passedCases: 1,
      cases: [{ verdict: Verdict.NOT_MEASURED, reason: 'the job ended before it' }, { verdict: Verdict.PASS }],
    });
  },
);

test('an experiment on a kernel that the fibre engine cannot run is refused at once', async () => {
  const fibres = openTestPlanner(undefined, { emulatorEngine: 'fibres' });
  await fibres.planner.prepare();
  const request = create(RunExperimentRequestSchema, { kernel: kernel('flashcore_v11') });
  expect(caught(() => fibres.planner.planJob('runExperiment', request, () => 0))).toMatchObject({
    reason: 'ARCH_UNSUPPORTED',
    message: expect.stringContaining('this runner has the fibre engine (by --emulator-engine)') as string,
  });
  await fibres.close();
});

function caught(work: () => unknown): unknown {
  try {
    work();
    return undefined;
  } catch (error) {
    return error;
  }
}
