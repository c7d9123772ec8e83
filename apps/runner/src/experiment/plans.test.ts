import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { FindingKind, Outcome, Verdict, type JobEvent, type VariantResult } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { edited, missing } from '@flashcore/shared/testing';
import { DeviceRuntime } from '../device/device-runtime.ts';
import type { JobPayload } from '../jobs/job-context.ts';
import { ownersKernels, REPOSITORY_ROOT, collect, startTestRunner, temporaryFolder } from '../testing/test-runner.ts';
import { createPlanner } from './planner.ts';
import { openTestPlanner, withoutBoxWarning, type TestPlanner } from './testing/run-job.ts';

const SMALL = parseShape('1x1x64x64');
const settings = {
  verify: { seedCount: 1, shapes: [SMALL] },
  benchmark: { shapes: [SMALL], protocol: { minSamples: 5, maxSamples: 20, maxSeconds: 0.3 } },
  profile: { shape: SMALL },
};

/** The files of a kernel folder as text. */
function filesOf(kernelId: string): Record<string, string> {
  const folder = join(REPOSITORY_ROOT, 'kernels', kernelId);
  return Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')]));
}

/** The manifest with these gates in place of its own. */
const withGates = (manifest: string, gates: string): string =>
  `${manifest.replace(/^gates:\n(?:[ -].*\n|\n)*/m, '')}\ngates:\n${gates}\n`;

const gateOf = (variant: VariantResult, id: string) => variant.gates.find(({ gateId }) => gateId === id)!;

let fixture: TestPlanner;
beforeAll(() => {
  fixture = openTestPlanner();
});
afterAll(() => fixture.close());

test.skipIf(missing('nvcc'))(
  'gates are announced first and decided as data arrives, and an uploaded folder is judged by its own gates',
  { timeout: 120_000 },
  async () => {
    const files = filesOf('fa_v1_baseline');
    files['kernel.yaml'] = withGates(
      files['kernel.yaml']!,
      '  - { id: registers, level: hard, target: 8, why: "a target that nothing reaches" }\n  - { id: warnings, metric: compile_warnings, op: "==", target: 0, level: warn, why: "none is wanted" }',
    );
    const kernel = fixture.upload(files);
    const { outcome, events } = await fixture.run('runExperiment', { kernel, ...settings });
    const [variant] = outcome.result.variants;
    expect(Outcome[outcome.outcome]).toBe('FAILED');
    expect(gateOf(variant!, 'registers')).toMatchObject({
      verdict: Verdict.FAIL,
      level: 'hard',
      target: 8,
      ownReason: 'a target that nothing reaches',
    });
    expect(gateOf(variant!, 'warnings')).toMatchObject({ verdict: Verdict.PASS, level: 'warn' });
    expect(outcome.summary).toMatch(/plan merge: \d of 5 hard gates passed, rejected by "Registers\/thread"/);
    expect(outcome.result).toMatchObject({
      plan: { name: 'merge', default: true, acceptable: true },
      provenance: { plan: 'merge', gatesSource: "kernels/gates.yaml, and fa_v1_baseline's own" },
      acceptability: { possible: false, reason: 'it did not pass: rejected by "Registers/thread"' },
    });
    const index = (find: (payload: JobPayload) => boolean): number => events.findIndex(find);
    const [announced] = withoutBoxWarning(events);
    if (announced?.case !== 'gatePlan') throw new Error('the plan is not announced first');
    expect(announced.value.plan!.gates.every(({ verdict }) => verdict === Verdict.UNSPECIFIED)).toBe(true);
    expect(announced.value.plan!.gates.map(({ gateId }) => gateId)).toEqual(variant!.gates.map(({ gateId }) => gateId));
    // The registers gate is decided before the first case is verified.
    expect(index((each) => each.case === 'gateResult' && each.value.gateId === 'registers')).toBeLessThan(
      index((each) => each.case === 'caseResult'),
    );
    // The same kernel in the runner's own folder, which does not have these gates, passes.
    const untouched = await fixture.run('runExperiment', {
      kernel: { source: { case: 'kernelId', value: 'fa_v1_baseline' } },
      ...settings,
    });
    expect(Outcome[untouched.outcome.outcome]).toBe('PASSED');
  },
);

test.skipIf(missing('nvcc')).each([
  ['merge', 'hard', 'FAILED', /rejected by "Register spills"/],
  ['explore', 'warn', 'PASSED', /plan explore: .*, \d+ warnings; not ranked/],
])(
  'under plan %s, a kernel that spills fails a gate of level %s and ends as %s',
  { timeout: 120_000 },
  async (plan, level, outcomeName, summary) => {
    const { outcome } = await fixture.run('runExperiment', {
      kernel: { source: { case: 'kernelId', value: 'register_spills' } },
      plan,
      ...settings,
    });
    const [variant] = outcome.result.variants;
    expect(variant!.findings).toMatchObject([{ kind: FindingKind.REGISTER_SPILLS }]);
    expect(gateOf(variant!, 'spills')).toMatchObject({ verdict: Verdict.FAIL, level });
    expect([Outcome[outcome.outcome], outcome.summary]).toEqual([
      outcomeName,
      expect.stringMatching(summary) as string,
    ]);
    expect(outcome.result.acceptability).toMatchObject({ possible: false });
  },
);

test.skipIf(missing('nvcc'))(
  'registers, shared memory, spills and CTAs are decided before the device is open',
  { timeout: 120_000 },
  async () => {
    const metrics = ['registers_per_thread', 'smem_bytes_per_cta', 'spill_bytes', 'theoretical_ctas_per_sm'];
    const gatesYaml = `default: built
gates:
${metrics.map((metric) => `  - { id: ${metric}, metric: ${metric}, op: ">=", target: 0, why: a test }`).join('\n')}
  - { id: cases, metric: cases_passed, op: "==", target: 1, why: not of the build }
plans:
  built: { title: Built, about: all, from: me, shapes: none, metrics: none, gates: { ${[...metrics, 'cases'].map((id) => `${id}: hard`).join(', ')} } }
`;
    const left = new AbortController();
    // The device never opens, so the job stays waiting for it.
    const opening = vi
      .spyOn(DeviceRuntime.prototype, 'warmUp')
      .mockImplementation(
        (signal) =>
          new Promise((_, reject) =>
            signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }),
          ),
      );
    onTestFinished(() => opening.mockRestore());
    const decided = new Map<string, string>();
    const job = fixture.run(
      'runExperiment',
      { kernel: { source: { case: 'kernelId', value: 'fa_v1_baseline' } }, verify: settings.verify, gatesYaml },
      {
        signal: AbortSignal.any([left.signal, AbortSignal.timeout(90_000)]),
        onEvent: ({ case: kind, value }) => {
          if (kind === 'gateResult') decided.set(value.gateId, Verdict[value.verdict]);
          if (metrics.every((id) => decided.has(id))) left.abort();
        },
      },
    );
    await expect(job).rejects.toThrow('aborted');
    expect(opening).toHaveBeenCalled();
    expect(left.signal.aborted).toBe(true);
    expect(Object.fromEntries(decided)).toEqual(Object.fromEntries(metrics.map((id) => [id, 'PASS'])));
  },
);

test.skipIf(missing('nvcc'))(
  'a client sends its own gates file, and the result has its plan, its metrics and its digest',
  { timeout: 120_000 },
  async () => {
    const gatesYaml = `
default: mine
gates:
  - { id: cases, metric: cases_passed, op: "==", target: 1, why: all that was run }
  - { id: occupancy, metric: theoretical_occupancy_percent, op: ">=", target: 101, unit: "%", why: more than there is }
plans:
  mine: { title: Mine, about: all, from: me, shapes: none, metrics: none, gates: { cases: hard, occupancy: hard } }
`;
    const kernel = { source: { case: 'kernelId', value: 'fa_v1_baseline' } } as const;
    const { outcome } = await fixture.run('runExperiment', { kernel, verify: settings.verify, gatesYaml });
    const [variant] = outcome.result.variants;
    expect(variant!.gates.map(({ gateId, verdict }) => [gateId, Verdict[verdict]])).toEqual([
      ['cases', 'PASS'],
      ['occupancy', 'FAIL'],
    ]);
    expect([variant!.benchmarks.length, variant!.profile]).toEqual([0, undefined]);
    expect(outcome.result.provenance).toMatchObject({
      plan: 'mine',
      gatesSource: "the client's gates file, and fa_v1_baseline's own",
    });
    expect(outcome.result.provenance!.gatesDigest).toMatch(/^[0-9a-f]{64}$/);
    await expect(fixture.run('runExperiment', { kernel, plan: 'merg' })).rejects.toMatchObject({
      reason: 'INVALID_REQUEST',
      message: expect.stringMatching(/plan: must be one of merge, .*did you mean "merge"/) as string,
    });
    await expect(fixture.run('runExperiment', { kernel, gatesYaml: 'gates: 3' })).rejects.toMatchObject({
      reason: 'INVALID_MANIFEST',
    });
    await expect(fixture.run('runExperiment', { kernel, verify: { caseSet: 'od' } })).rejects.toMatchObject({
      message: expect.stringMatching(/did you mean "odd"/) as string,
    });
  },
);

test("the tensor cores' accumulator type is evaluated from the parameters, and plan explore does not check it", () => {
  const run = (plan: string, USE_WMMA = 1n) =>
    fixture.run('runExperiment', {
      kernel: { source: { case: 'kernelId', value: 'fa_s512_v3_wmma' } },
      variant: { parameters: { ACCUM_F32: 0n, USE_WMMA } },
      ...settings,
      plan,
    });
  return Promise.all([
    // With ACCUM_F32=0 the scalar loops keep O in fp16 too, like the tensor cores.
    ...[1n, 0n].map(async (wmma) => {
      const { outcome } = await run('merge', wmma);
      expect(Outcome[outcome.outcome]).toBe('FAILED');
      expect(outcome.result.prechecks.find(({ check }) => check === 'accumulate')).toMatchObject({
        verdict: Verdict.FAIL,
        detail: expect.stringMatching(/^the manifest says fp16 \(fp32 when .*\), fp32 is required$/) as string,
      });
      expect(outcome.result.variants).toEqual([]);
    }),
    run('explore').then(({ outcome }) => {
      expect(outcome.result.prechecks).toEqual([]);
      expect(outcome.result.variants).toHaveLength(1);
    }),
  ]);
}, 180_000);

test.skipIf(missing('nvcc'))(
  'the gate on shared memory has a value even if the compiler refused the amount',
  { timeout: 60_000 },
  async () => {
    const kernel = { source: { case: 'kernelId', value: 'static_smem_69kb' } } as const;
    const { outcome } = await fixture.run('runExperiment', { kernel, ...settings });
    expect(Outcome[outcome.outcome]).toBe('COMPILE_FAILED');
    expect(gateOf(outcome.result.variants[0]!, 'shared_memory')).toMatchObject({
      verdict: Verdict.FAIL,
      value: 69 * 1024,
      target: 48 * 1024,
    });
  },
);

test(
  'a deprecated kernel is neither accepted as champion nor compared with on request',
  { timeout: 120_000 },
  async () => {
    const files = filesOf('fa_v1_baseline');
    files['kernel.yaml'] = `${files['kernel.yaml']!}\ndeprecated: "its rows are wrong on Tuesdays"\n`;
    const kernel = fixture.upload(files);
    const { outcome } = await fixture.run('runExperiment', { kernel, ...settings });
    expect(outcome.result.acceptability).toMatchObject({
      possible: false,
      reason: 'the kernel is deprecated: its rows are wrong on Tuesdays',
    });
    await expect(
      fixture.run('runExperiment', {
        kernel: { source: { case: 'kernelId', value: 'fa_v2_wmma' } },
        verify: settings.verify,
        benchmark: { ...settings.benchmark, champion: { kernel } },
      }),
    ).rejects.toMatchObject({
      reason: 'INVALID_REQUEST',
      message: expect.stringMatching(/champion\.kernel: must not be deprecated/) as string,
    });
  },
);

const FAILURES: [why: string, change: (source: string) => string, gates: string][] = [
  ['a gate rejects it', (source: string) => source, '  - { id: registers, level: hard, target: 8, why: too many }'],
  ['it does not compile', (source: string) => `#if USE_WMMA\n#error no tensor cores today\n#endif\n${source}`, ''],
  [
    'it faults',
    (source: string) => edited(source, 'int causal) {', 'int causal) {\n  if (USE_WMMA) O -= 1 << 20;'),
    '',
  ],
];

test.skipIf(missing('nvcc')).each(FAILURES)(
  'if the variant with tensor cores fails because %s, the plan decides whether the variant without them can pass',
  { timeout: 240_000 },
  async (_, change, gates) => {
    const files = filesOf('fa_v2_wmma');
    files['fa_v2_wmma.cu'] = change(files['fa_v2_wmma.cu']!);
    if (gates !== '') files['kernel.yaml'] = withGates(files['kernel.yaml']!, gates);
    const kernel = fixture.upload(files);
    const on = await fixture.run('runExperiment', {
      kernel,
      verify: settings.verify,
      profile: settings.profile,
      plan: 'nsight',
    });
    expect(Outcome[on.outcome.outcome]).toBe('PASSED');
    expect(on.outcome.summary).toMatch(/^FELL BACK: USE_WMMA=1 .*: plan nsight goes on with USE_WMMA=0/);
    expect(on.outcome.result.variants.map(({ label, fallback }) => [label, fallback])).toEqual([
      ['USE_WMMA=1', false],
      ['USE_WMMA=0', true],
    ]);
    const beside = await fixture.run('runExperiment', {
      kernel,
      ...settings,
      plan: 'merge',
    });
    expect(beside.outcome.outcome).not.toBe(Outcome.PASSED);
    expect(beside.outcome.result.variants).toHaveLength(2);
    expect(beside.outcome.result.fellBack).toBeUndefined();
  },
);

test(
  "the legacy loop is reported with a shape's last measurement, and with a warning that it is not a latency",
  { timeout: 60_000 },
  async () => {
    const kernel = { source: { case: 'kernelId', value: 'fa_v1_baseline' } } as const;
    const { outcome } = await fixture.run('benchmark', {
      kernel,
      settings: { ...settings.benchmark, legacyLoop: true },
    });
    const [cold, hot] = outcome.result.variants[0]!.benchmarks;
    expect(cold!.legacyLoop).toBeUndefined();
    expect(hot!.legacyLoop).toMatchObject({ launches: 3, warning: expect.stringMatching(/not a latency/) as string });
    expect(hot!.legacyLoop!.meanUs).toBeGreaterThan(0);
    await expect(
      fixture.run('benchmark', { kernel, settings: { ...settings.benchmark, sdpaBackends: ['flsh'] } }),
    ).rejects.toMatchObject({
      message: expect.stringMatching(/must be some of flash, .*did you mean "flash"/) as string,
    });
  },
);

test(
  "an accepted build is the next experiment's champion, and on the emulator nothing is timed against it",
  { timeout: 180_000 },
  async () => {
    using folder = temporaryFolder();
    await using runner = await startTestRunner({ createPlanner, kernelsDirectory: ownersKernels(folder.path) });
    const { client } = runner;
    const experiment = async (extra: object) => {
      const events: JobEvent[] = await collect(
        client.start('runExperiment', {
          kernel: { source: { case: 'kernelId', value: 'fa_v2_wmma' } },
          noFallback: true,
          ...extra,
        }),
      );
      const name = events[0]!.job;
      const { job, result } = await client.getJob({ name });
      return { name, result: result!, summary: job!.summary };
    };
    const first = await experiment({});
    expect(first.result.acceptability).toMatchObject({
      possible: true,
      command: `fa-tui accept ${first.name.slice(5, 13)} --over none`,
      over: 'none',
    });
    expect(gateOf(first.result.variants[0]!, 'regression')).toMatchObject({
      verdict: Verdict.NOT_MEASURED,
      detail: expect.stringMatching(/^no champion of flashcore CPU emulator/) as string,
    });
    await client.accept({ job: first.name, over: 'none' });
    const second = await experiment({ variant: { parameters: { USE_WMMA: 0n } } });
    const { difference, comparison } = second.result.variants[0]!;
    expect(comparison).toBeUndefined();
    expect(difference).toMatchObject({
      champion: 'fa_v2_wmma USE_WMMA=1',
      championJob: first.name,
      parameters: [{ name: 'USE_WMMA', champion: '1', candidate: '0' }],
      sources: [],
      changes: 1,
    });
    expect(difference!.warning).toBeUndefined();
    expect(gateOf(second.result.variants[0]!, 'regression').detail).toBe('emulator times are not GPU times');
    expect(second.result.acceptability).toMatchObject({ replaces: 'fa_v2_wmma USE_WMMA=1', over: first.name });
    // The next step of the ladder has no champion of its own, so it is compared with the champion of the step before.
    const next = await experiment({ kernel: { source: { case: 'kernelId', value: 'flashcore_v5' } } });
    expect(next.result.variants[0]!.difference).toMatchObject({
      champion: 'fa_v2_wmma USE_WMMA=1',
      sources: [{ path: 'flashcore_v5.cu' }],
      warning: expect.stringMatching(
        /^\d+ changes at once: .*flashcore_v5\.cu in \d+ places; change one thing at a time$/,
      ) as string,
    });
    expect(next.result.lineage).toEqual(['flashcore_v5', 'fa_v2_wmma', 'fa_v1_baseline']);
    const without = await experiment({ noChampion: true });
    expect(without.result.variants[0]!.difference).toBeUndefined();
    expect(without.result.acceptability).toMatchObject({
      possible: false,
      reason: 'not ranked: the request left the champion out',
    });
    expect(without.summary).toMatch(/not ranked: the request left the champion out$/);
  },
);
