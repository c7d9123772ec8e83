import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { EntryResourcesSchema, FindingKind, ShapeSchema, Verdict } from '@flashcore/shared/contract';
import { attentionCase, METRICS, isCounter } from '@flashcore/shared/kernels';
import { profileFindings } from '../phases/profile-phase.ts';
import { metricRules } from './counters.ts';
import { modelledResult, type CountedKernel } from './modelled-result.ts';

const shape = create(ShapeSchema, { batch: 1, heads: 4, sequenceLength: 128, headDim: 64 });
const LAUNCH = {
  entry: 'attend',
  blocks: 128,
  counts: {
    instructions: 1000,
    lanes: 24_000,
    fma: 250,
    tensor: 4,
    flops: 64_000,
    shared_load_requests: 80,
    shared_load_wavefronts: 300,
    shared_load_conflicts: 150,
    shared_store_requests: 20,
    shared_store_wavefronts: 100,
    global_load_requests: 10,
    global_load_sectors: 40,
    async_copy_requests: 10,
    async_copy_sectors: 20,
    global_store_sectors: 40,
  },
  lines: {
    'attend.cu:34': { instructions: 80, lanes: 2560, shared_load_requests: 80, shared_load_conflicts: 150 },
    'attend.cu:7': { instructions: 20, lanes: 320, shared_store_requests: 20, shared_store_wavefronts: 100 },
  },
};

const COUNTED: CountedKernel = {
  arch: 'sm_89',
  deviceName: 'flashcore CPU emulator (L4 limits)',
  shape,
  computed: attentionCase(shape, 'fp16'),
  accumulate: 'fp32',
  launches: [LAUNCH, { ...LAUNCH, entry: 'combine', counts: { instructions: 10 }, lines: {} }],
  entries: [create(EntryResourcesSchema, { entry: 'attend', ctasPerSm: 3, occupancyPercent: 25 })],
  counters: ['l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum', 'dram__bytes.sum'],
  frontEnd: 'nvcc',
  textOf: (file, line) => `${file}, line ${line}`,
};
const result = modelledResult(COUNTED);
const metric = (name: string) => result.metrics.find((each) => each.name === name);

test('counters defined as in ncu carry its names and are marked as modelled', () => {
  expect([
    metric('smem_bank_conflict_percent')?.value,
    metric('smem_wavefronts_per_request')?.value,
    metric('l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum'),
  ]).toMatchObject([
    37.5,
    4,
    {
      value: 300,
      source: 'modelled l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum, attend, the largest of 2 launches',
    },
  ]);
  expect([metric('executed_flops_per_byte')?.value, metric('active_lanes')?.value]).toEqual([20, 24]);
  expect([metric('global_load_sectors_per_request')?.value, metric('resident_ctas_per_sm')?.value]).toEqual([3, 3]);
});

test('the bottleneck is that of the counts, and absent for an unknown device', () => {
  expect(result.bottleneck).toBe(
    'device memory: moving every tensor once takes 6.3 times as long as the products on tensor cores',
  );
  expect(modelledResult({ ...COUNTED, deviceName: 'Some GPU' }).bottleneck).toBeUndefined();
});

test('figures that only a GPU has are absent, with the reason', () => {
  expect([result.verdict, result.modelled, result.stalls, metric('gpu_time_us'), metric('dram__bytes.sum')]).toEqual([
    Verdict.PASS,
    true,
    [],
    undefined,
    undefined,
  ]);
  expect(result.reason).toContain('time, stalls and utilisation');
  expect(result.reason).toContain('not read: dram__bytes.sum');
});

test('the shares of the instruction families add up to all instructions', () => {
  const counts = { ...{ instructions: 200, fma: 40, float: 10, integer: 50, conversion: 30, special_function: 6 } };
  const { metrics } = modelledResult({
    ...COUNTED,
    launches: [
      { ...LAUNCH, counts: { ...counts, tensor: 4, memory: 40, control: 10, warp: 6, barrier: 4 }, lines: {} },
    ],
  });
  const families = metrics.filter(({ name, source }) => name.endsWith('_percent') && source.includes('PTX'));
  expect(families.reduce((sum, { value }) => sum + value, 0)).toBeCloseTo(100);
  expect(families.find(({ name }) => name === 'conversion_percent')?.value).toBe(15);
});

test('the ridge uses the peak of the units that the kernel uses, on the architecture of its build', () => {
  const ridgeOf = (tensor: number, arch: string) =>
    modelledResult({
      ...COUNTED,
      arch,
      launches: [{ ...LAUNCH, counts: { ...LAUNCH.counts, tensor } }],
    }).metrics.find(({ name }) => name === 'ridge_flops_per_byte');
  expect([ridgeOf(4, 'sm_89')!.value, ridgeOf(0, 'sm_89')!.value, ridgeOf(0, 'sm_90')!.value]).toEqual([
    expect.closeTo(121e12 / 300e9),
    expect.closeTo(30.3e12 / 300e9),
    expect.closeTo(67e12 / 4800e9),
  ]);
  expect(ridgeOf(0, 'sm_89')!.source).toMatch(/^fp32 units, because it executed no tensor-core instruction; /);
});

test('a gate can use every figure of a profile', () => {
  const shown = [...result.metrics.map(({ name }) => name), ...metricRules('sm_90').map(({ name }) => name)];
  expect(shown).toContain('barrier_instructions');
  expect(shown.filter((name) => !isCounter(name) && !Object.hasOwn(METRICS, name))).toEqual([]);
});

test('lines come in source order, with their text; the worst line for bank conflicts is found', () => {
  expect(result.lines.map((each) => [each.line, each.text, each.sharedRequests, each.activeLanes])).toEqual([
    [7, 'attend.cu, line 7', 20n, 16],
    [34, 'attend.cu, line 34', 80n, 32],
  ]);
  expect(profileFindings(result)).toMatchObject([
    { kind: FindingKind.BANK_CONFLICTS, location: { file: 'attend.cu', line: 34 } },
  ]);
});

test("counters of code made by clang never have ncu's names, and the result says why", () => {
  const { metrics, reason } = modelledResult({ ...COUNTED, frontEnd: 'clang' });
  const names = metrics.map(({ name }) => name);
  expect(names.filter((name) => name.startsWith('smem_') || name.includes('__'))).toEqual([]);
  expect(names).toContain('active_lanes');
  expect(reason).toContain("the shared-memory counters of ncu are modelled for nvcc's code, and clang made this");
});

test('a kernel that shared memory bounds is advised about its loads first, unless bank conflicts are the reason', () => {
  const adviceWith = (conflicts: number): string[] => {
    const counts = { ...LAUNCH.counts, shared_load_wavefronts: 1_000_000, shared_load_conflicts: conflicts };
    const launches = [{ ...LAUNCH, counts: { ...counts, shared_store_conflicts: 0 } }];
    const { bottleneck, advice } = modelledResult({ ...COUNTED, launches });
    expect(bottleneck).toMatch(/^shared memory: /);
    return advice.map(({ text }) => text);
  };
  expect(adviceWith(0)[0]).toMatch(/^Loads from shared memory feed the arithmetic/);
  expect(adviceWith(900_000)[0]).not.toMatch(/^Loads from shared memory/);
  expect(adviceWith(900_000).join()).toMatch(/^(?=.*Swizzle the rows).*Loads from shared memory/s);
});
