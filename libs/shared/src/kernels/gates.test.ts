import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { parseCases, toleranceProfile } from './cases.ts';
import { FlashcoreError } from '../contract/errors.ts';
import { evaluateGates, type GateContext, gateFor, parseGates } from './gates.ts';
import {
  ComparisonVerdict,
  type GateResult,
  StopReason,
  TimingMode,
  VariantResultSchema,
  Verdict,
} from '../generated/flashcore/runner/v1/result_pb.js';
import { parseShape } from './shape.ts';

const read = (name: string) => readFileSync(join(import.meta.dirname, '../../../../kernels', name), 'utf8');
const cases = parseCases(read('cases.yaml'), 'cases.yaml');
const gates = parseGates(read('gates.yaml'), 'gates.yaml');
const canonical = parseShape('2x8x512x64');

type VariantInit = MessageInitShape<typeof VariantResultSchema>;

function answers(variant: VariantInit, context: Partial<GateContext> = {}): Record<string, GateResult> {
  const results = evaluateGates(gates, {
    kernelId: 'some_kernel',
    arch: 'sm_89',
    history: undefined,
    cases,
    ...context,
    variant: create(VariantResultSchema, variant),
  });
  return Object.fromEntries(results.map((result) => [result.gateId, result]));
}

const brief = ({ verdict, value }: GateResult) => [Verdict[verdict], value];

const entry = {
  entry: 'attend',
  arch: 'sm_89',
  registersPerThread: 60,
  staticSmemBytes: 1_000,
  dynamicSmemBytes: 40_000,
  ctasPerSm: 4,
  occupancyPercent: 33.3,
  occupancyLimiter: 'shared memory',
  threadsPerCta: 128,
};
const built = {
  succeeded: true,
  entries: [
    entry,
    { ...entry, entry: 'combine', registersPerThread: 72, spillStoreBytes: 8, spillLoadBytes: 4, ctasPerSm: 3 },
  ],
};
const passedCase = (shape: ReturnType<typeof parseShape>) => ({
  shape,
  verdict: Verdict.PASS,
  seeds: 5,
  maxAbsError: 1e-3,
  flashAttentionRule: Verdict.PASS,
});
const verified = {
  cases: cases.sets.parity.map(passedCase),
  tolerance: { profile: 'parity', absolute: 1e-2, relative: 1e-2 },
};
const latency = (p50Us: number) => ({ samples: 100, p50Us, p50LowUs: p50Us * 0.99, p50HighUs: p50Us * 1.01 });
const sdpa = (name: string, speedup: number) => ({
  name,
  latency: latency(20 * speedup),
  speedup,
  speedupLow: speedup * 0.98,
  speedupHigh: speedup * 1.02,
});
const cold = {
  shape: canonical,
  mode: TimingMode.COLD,
  latency: latency(20),
  stopReason: StopReason.CONVERGED,
  valid: true,
  sdpa: [sdpa('sdpa/flash', 2.4), sdpa('sdpa/cudnn', 1.9)],
};

test('nothing done: every gate of the repository answers not measured with a reason', () => {
  const all = Object.values(answers({}));
  expect(all.length).toBe(gates.length);
  expect(
    all.filter(
      ({ verdict, detail, value }) =>
        verdict !== Verdict.NOT_MEASURED || !/^not measured: \w/.test(detail) || value !== undefined,
    ),
  ).toEqual([]);
});

test('a variant with everything measured is judged by each gate', () => {
  const metrics = Object.entries({
    tensor_pipe_percent: 45,
    dram_throughput_percent: 12,
    smem_bank_conflict_percent: 1,
    resident_ctas_per_sm: 4,
  }).map(([name, value]) => ({ name, value, unit: '', source: `ncu ${name}` }));
  const history = { bestAccepted: () => ({ job: 'jobs/1', label: 'some_kernel default', latency: latency(22) }) };
  const results = answers(
    {
      build: built,
      verify: verified,
      benchmarks: [cold, { ...cold, mode: TimingMode.HOT, latency: latency(9) }],
      profile: { metrics },
    },
    { history },
  );
  expect(Object.fromEntries(Object.entries(results).map(([id, result]) => [id, brief(result)]))).toEqual({
    registers: ['FAIL', 72],
    shared_memory: ['PASS', 41_000],
    spills: ['FAIL', 12],
    local_memory: ['PASS', 0],
    theoretical_ctas: ['FAIL', 3],
    correctness: ['PASS', 1],
    fp16_rule: ['PASS', 1],
    latency: ['PASS', 20],
    speedup_sdpa: ['FAIL', 1.9],
    success: ['NOT_MEASURED', undefined],
    tensor_cores: ['PASS', 45],
    dram: ['FAIL', 12],
    bank_conflicts: ['PASS', 1],
    resident_ctas: ['PASS', 4],
    regression: ['PASS', expect.closeTo(22 / 9, 9)],
    improvement: ['PASS', expect.closeTo((22 * 0.99) / (9 * 1.01), 9)],
  });
  expect(results['registers']).toMatchObject({
    source: 'ptxas sm_89',
    level: 'hard',
    comparison: '<=',
    target: 64,
    detail: expect.stringMatching(/^combine, the highest of 2 entries; 64 registers/) as string,
  });
  expect(results['success']!.detail).toBe(
    'not measured: compared on 1 shape, and the gate wants 2: run with --shape 2x8x512x64 --shape 1x8x512x64',
  );
});

test("the emulator's times pass and fail nothing, in any benchmark or history gate", () => {
  const results = answers({
    build: { succeeded: true, entriesMissing: 'not measured: no nvcc on this host' },
    benchmarks: [{ ...cold, shape: parseShape('1x1x64x64'), simulated: true }],
  });
  expect(['latency', 'speedup_sdpa', 'success', 'regression', 'improvement'].map((id) => results[id]!.detail)).toEqual(
    Array(5).fill('not measured: emulator times are not GPU times'),
  );
  expect(results['registers']!.detail).toBe('not measured: no nvcc on this host');
});

test('what stands on isolated samples names their shape', () => {
  const results = answers({ benchmarks: [cold] });
  expect(['latency', 'speedup_sdpa'].map((id) => results[id]!.detail.split('; ')[0])).toEqual([
    '2x8x512x64 cold',
    '2x8x512x64 cold',
  ]);
});

test('a benchmark that timed out or is not valid is not judged', () => {
  const detail = (change: object) => answers({ benchmarks: [{ ...cold, ...change }] })['latency']!.detail;
  expect(detail({ stopReason: StopReason.TIMED_OUT })).toContain('time limit');
  expect(detail({ valid: false, invalidReason: 'faster than the roofline' })).toBe(
    'not measured: faster than the roofline',
  );
  expect(detail({ mode: TimingMode.HOT })).toBe('not measured: the canonical shape was not benchmarked cold');
});

test('correctness needs all parity cases within the parity profile', () => {
  const correctness = (verify: VariantInit['verify']) => {
    const { verdict, value, detail } = answers({ verify })['correctness']!;
    return [Verdict[verdict], value, detail];
  };
  const [first, ...others] = verified.cases;
  const failing = { ...first!, verdict: Verdict.FAIL, reason: '3 elements outside the tolerance' };
  expect(correctness({ ...verified, cases: [failing, ...others] })).toEqual([
    'FAIL',
    6 / 7,
    expect.stringMatching(/^6 of 7 cases, 5 seeds each; first failing 1x8x512x64 \(3 elements/),
  ]);
  expect(correctness({ ...verified, cases: others })).toEqual([
    'NOT_MEASURED',
    undefined,
    'not measured: 1 of 7 parity cases were not run',
  ]);
  const someRun = [
    failing,
    ...others.slice(1, 3),
    ...others.slice(3).map((each) => ({ ...each, verdict: Verdict.NOT_MEASURED, reason: 'cancelled' })),
  ];
  expect(correctness({ ...verified, cases: someRun })).toEqual([
    'FAIL',
    2 / 3,
    expect.stringMatching(/^2 of 3 cases, .*first failing 1x8x512x64 .*; 4 of 7 parity cases were not run: cancelled;/),
  ]);
  expect(correctness({ ...verified, cases: [failing] }).slice(0, 2)).toEqual(['FAIL', 0]);
  expect(correctness({ ...verified, tolerance: { profile: 'default', absolute: 1e-2, relative: 5e-2 } })[0]).toBe(
    'NOT_MEASURED',
  );
  expect(correctness({ ...verified, tolerance: { profile: 'strict', absolute: 1e-3, relative: 1e-3 } })[0]).toBe(
    'PASS',
  );
});

test('the success gate counts shapes by the lower end of the interval, against every backend', () => {
  const on = (text: string, ...speedups: number[]) => ({
    ...cold,
    shape: parseShape(text),
    sdpa: speedups.map((speedup, index) => sdpa(`sdpa/${index}`, speedup)),
  });
  const success = (...benchmarks: VariantInit['benchmarks'] & object) => brief(answers({ benchmarks })['success']!);
  expect(success(on('2x8x512x64', 1.3, 2), on('1x8x512x64', 1.2))).toEqual(['PASS', 2]);
  expect(success(on('2x8x512x64', 1.3, 1.11), on('1x8x512x64', 1.2))).toEqual(['FAIL', 1]);
});

test('register gates look at the entries that the benchmarked shape launches, and say which are left out', () => {
  const entries = [
    { ...entry, shapes: ['2x8x512x64', '1x8x512x64'] },
    { ...entry, entry: 'split', registersPerThread: 120, shapes: ['1x4x128x64'] },
  ];
  const registers = (variant: VariantInit) => {
    const { value, detail } = answers(variant)['registers']!;
    return [value, detail];
  };
  expect(registers({ build: { succeeded: true, entries } })).toEqual([
    60,
    'attend; 1 more entry is not launched for 2x8x512x64',
  ]);
  expect(
    registers({ build: { succeeded: true, entries }, benchmarks: [{ ...cold, shape: parseShape('1x4x128x64') }] })[0],
  ).toBe(120);
  expect(
    registers({
      build: { succeeded: true, entries },
      benchmarks: [cold, { ...cold, shape: parseShape('1x4x128x64') }],
    }),
  ).toEqual([120, expect.stringMatching(/^split, the highest of 2 entries/)]);
});

const ratio = (low: number, middle: number, high: number) => ({ low, ratio: middle, high });
const compared = (text: string, time: ReturnType<typeof ratio>, cycles = time) => ({
  shape: parseShape(text),
  mode: TimingMode.HOT,
  verdict: ComparisonVerdict.FASTER,
  reason: 'why',
  time,
  cycles,
});

test('beside a champion in the same job the history gates take the interleaved ratios, the smaller of time and cycles', () => {
  const history = { bestAccepted: () => ({ job: 'jobs/1', label: 'some_kernel default', latency: latency(1) }) };
  const hot = { ...cold, mode: TimingMode.HOT };
  const both = (comparison: NonNullable<VariantInit['comparison']>) => {
    const all = answers({ benchmarks: [hot], comparison }, { history });
    return [all['regression']!, all['improvement']!];
  };
  const shapes = [
    compared('2x8x512x64', ratio(1.04, 1.05, 1.06), ratio(1.035, 1.045, 1.05)),
    compared('1x8x512x64', ratio(0.985, 1, 1.01), ratio(0.97, 0.98, 0.99)),
  ];
  const judged = both({ verdict: ComparisonVerdict.SLOWER, champion: { label: 'flashcore_v9' }, shapes });
  expect(judged.map((gate) => [...brief(gate), gate.source])).toEqual([
    ['FAIL', 0.98, 'interleaved with flashcore_v9 in this job'],
    ['PASS', 1.035, 'interleaved with flashcore_v9 in this job'],
  ]);
  const refused = both({
    verdict: ComparisonVerdict.NOT_JUDGED,
    reason: 'not judged: the champion differs from itself',
    champion: { label: 'flashcore_v9' },
    shapes,
  });
  expect(refused.map(({ verdict, detail }) => [Verdict[verdict], detail])).toEqual(
    Array(2).fill(['NOT_MEASURED', 'not measured: the champion differs from itself']),
  );
});

test('overrides: the last that fits kernel and architecture counts, and an off gate shows its value unjudged', () => {
  expect(
    gateFor(
      gates.find(({ id }) => id === 'registers')!,
      { kernelId: 'flashcore_v6', arch: 'sm_89' },
    ).level,
  ).toBe('warn');
  expect(
    gateFor(
      gates.find(({ id }) => id === 'speedup_sdpa')!,
      { kernelId: 'flashcore_v10', arch: 'sm_90' },
    ).level,
  ).toBe('warn');
  const off = answers(
    { profile: { metrics: [{ name: 'tensor_pipe_percent', value: 0, source: 'ncu' }] } },
    { kernelId: 'flashcore_v5' },
  )['tensor_cores']!;
  expect([Verdict[off.verdict], off.value, off.level]).toEqual(['NOT_MEASURED', 0, 'off']);
  expect(off.detail).toMatch(/^not judged: a scalar kernel/);
});

test.each([
  [
    'metric: registers_per_thread',
    'metric: registers_per_tread',
    /gates\[0\]\.metric: wanted one of .* \(did you mean "registers_per_thread"\?\)/,
  ],
  [
    'phase: build',
    'phase: verify',
    /gates\[0\]\.phase: wanted build, which measures registers_per_thread, found verify/,
  ],
  ['op: "<="', 'op: "=<"', /gates\[0\]\.op: wanted one of <=, >=, <, ==/],
  ['    level: hard', '    level: hart', /gates\[0\]\.level: .*did you mean "hard"/],
  ['target: 64', 'target: many', /gates\[0\]\.target: wanted a number, found "many"/],
  ['id: shared_memory', 'id: registers', /gates\[1\]\.id: the id "registers" is taken/],
])('gates.yaml with %j as %j is refused', (was, is, message) => {
  expect(() => parseGates(read('gates.yaml').replace(was, is), 'gates.yaml')).toThrow(message);
});

test('cases.yaml: the seven parity cases, and what is wrong is named', () => {
  expect(cases.sets.parity.length).toBe(7);
  expect(cases.distributions['saturated']).toMatchObject({ name: 'saturated', q: 'normal', logitScale: 8 });
  expect(toleranceProfile(cases, 'strict')).toEqual({ atol: 1e-3, rtol: 1e-3 });
  expect(() => toleranceProfile(cases, 'constructor')).toThrow(FlashcoreError);
  expect(() => parseCases(read('cases.yaml').replace('set: parity', 'set: party'), 'cases.yaml')).toThrow(
    /"party" is not defined \(did you mean "parity"\?\)/,
  );
  expect(() =>
    parseCases(read('cases.yaml').replace('D: 64, causal: false }', 'D: 0, causal: false }'), 'cases.yaml'),
  ).toThrow(/sets\.parity\[0\]\.D: wanted an integer of 1/);
});
