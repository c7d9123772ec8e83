import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { parseCases, toleranceProfile } from '../cases.ts';
import { FlashcoreError } from '../../contract/errors.ts';
import { outcomeOfVariant } from '../../contract/outcome.ts';
import { Outcome } from '../../generated/flashcore/runner/v1/job_pb.js';
import { parseManifest } from '../manifest.ts';
import { evaluateGate, evaluateGroup } from './evaluate-gates.ts';
import type { PlannedGate } from './gate.ts';
import { parseGates } from './gates-file.ts';
import type { GateContext } from './measure/answer.ts';
import { findPlan, gateNeeds, plannedGates, planMessage } from './plan-gates.ts';
import {
  ComparisonVerdict,
  type GateResult,
  type ProfileResultSchema,
  StopReason,
  TimingMode,
  VariantResultSchema,
  Verdict,
} from '../../generated/flashcore/runner/v1/result_pb.js';
import { parseShape } from '../shape.ts';

/** The answers of all gates, in order. */
function evaluateGates(gates: readonly PlannedGate[], context: GateContext): GateResult[] {
  const answers = new Map<string, GateResult>();
  for (const gate of gates) if (gate.phase !== 'group') answers.set(gate.id, evaluateGate(gate, context).result);
  return gates.map((gate) => answers.get(gate.id) ?? evaluateGroup(gate, answers));
}

const read = (name: string) => readFileSync(join(import.meta.dirname, '../../../../../kernels', name), 'utf8');
const cases = parseCases(read('cases.yaml'), 'cases.yaml');
const file = parseGates(read('gates.yaml'), 'gates.yaml');
const arch = 'sm_89';
const canonical = parseShape('2x8x512x64');

type VariantInit = MessageInitShape<typeof VariantResultSchema>;

/** The gates' answers in a plan; by default nsight, which also judges resource metrics. */
function answers(
  variant: VariantInit,
  { plan: planName = 'nsight', ...context }: Partial<GateContext> & { plan?: string } = {},
): Record<string, GateResult> {
  const gates = plannedGates(file, { plan: findPlan(file, planName), own: [], arch });
  const results = evaluateGates(gates, {
    cases,
    undocumented: [],
    noChampion: undefined,
    verified: cases.sets.parity,
    benchmarked: [canonical],
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

test('without measurements every gate is NOT_MEASURED with a reason, except gates on the folder itself', () => {
  const all = Object.values(answers({}));
  expect(all.length).toBe(file.gates.length);
  const measured = all.filter(({ verdict, detail, value }) => {
    return verdict !== Verdict.NOT_MEASURED || detail === '' || value !== undefined;
  });
  expect(measured.map(({ gateId }) => gateId)).toEqual(['documented']);
});

test('a variant with all measurements is judged by each gate', () => {
  const metrics = Object.entries({
    tensor_pipe_percent: 45,
    dram_throughput_percent: 12,
    smem_bank_conflict_percent: 1,
    resident_ctas_per_sm: 4,
  }).map(([name, value]) => ({ name, value, unit: '', source: `ncu ${name}` }));
  const results = answers({
    build: built,
    verify: verified,
    benchmarks: [cold, { ...cold, mode: TimingMode.HOT, latency: latency(9) }],
    profile: { metrics },
  });
  expect(Object.fromEntries(Object.entries(results).map(([id, result]) => [id, brief(result)]))).toEqual({
    spills: ['FAIL', 12],
    correctness: ['PASS', 1],
    regression: ['NOT_MEASURED', undefined],
    documented: ['PASS', 0],
    improvement: ['NOT_MEASURED', undefined],
    latency: ['PASS', 20],
    latency_hot: ['PASS', 9],
    speedup_sdpa: ['FAIL', 1.9],
    fast: ['PASS', 1],
    success: ['NOT_MEASURED', undefined],
    finite: ['PASS', 0],
    fp16_rule: ['PASS', 1],
    local_memory: ['PASS', 0],
    registers: ['FAIL', 72],
    shared_memory: ['PASS', 41_000],
    theoretical_ctas: ['FAIL', 3],
    tail: ['NOT_MEASURED', undefined],
    tensor_cores: ['PASS', 45],
    dram: ['FAIL', 12],
    bank_conflicts: ['PASS', 1],
    resident_ctas: ['PASS', 4],
    sm_busy: ['NOT_MEASURED', undefined],
    occupancy: ['NOT_MEASURED', undefined],
  });
  expect(results['registers']).toMatchObject({
    source: 'ptxas sm_89',
    level: 'hard',
    comparison: '<=',
    target: 64,
    detail: expect.stringMatching(
      /^combine: 3 CTAs\/SM, 33 % of its warps, bound by shared memory, the highest of 2 entries; 64 registers/,
    ) as string,
  });
  expect(results['success']!.detail).toBe(
    'compared on 1 shape, and the gate wants 2: run with --shape 2x8x512x64 --shape 1x8x512x64',
  );
});

test("the emulator's times neither pass nor fail any benchmark gate", () => {
  const results = answers({
    build: { succeeded: true, entriesMissing: 'no nvcc on this host' },
    benchmarks: [{ ...cold, shape: parseShape('1x1x64x64'), simulated: true }],
  });
  expect(['latency', 'speedup_sdpa', 'success'].map((id) => results[id]!.detail)).toEqual(
    Array(3).fill('emulator times are not GPU times'),
  );
  expect(results['registers']!.detail).toBe('no nvcc on this host');
});

test('answers from isolated samples name their shape and mode', () => {
  const results = answers({ benchmarks: [cold] });
  expect(['latency', 'speedup_sdpa'].map((id) => results[id]!.detail.split('; ')[0])).toEqual([
    '2x8x512x64 cold',
    '2x8x512x64 cold',
  ]);
});

test('a benchmark that timed out or is invalid is not judged', () => {
  const detail = (change: object) => answers({ benchmarks: [{ ...cold, ...change }] })['latency']!.detail;
  expect(detail({ stopReason: StopReason.TIMED_OUT })).toContain('time limit');
  expect(detail({ valid: false, invalidReason: 'faster than the roofline' })).toBe('faster than the roofline');
  expect(detail({ mode: TimingMode.HOT })).toBe('2x8x512x64 was not benchmarked cold');
});

test('the correctness gate needs all parity cases within the parity profile', () => {
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
    '1 of 7 parity cases were not run',
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
  // A shape that the client chose can't pass the gate, but it can fail it.
  const chosen = { ...failing, shape: parseShape('1x2x128x64') };
  expect(correctness({ ...verified, cases: [chosen] })).toEqual([
    'FAIL',
    0,
    expect.stringMatching(/first failing 1x2x128x64 .*; 7 of 7 parity cases were not run;/),
  ]);
  expect(correctness({ ...verified, cases: [...verified.cases, chosen] })[0]).toBe('FAIL');
  expect(correctness({ ...verified, cases: [{ ...chosen, verdict: Verdict.PASS }] })[0]).toBe('NOT_MEASURED');
  expect(correctness({ ...verified, tolerance: { profile: 'default', absolute: 1e-2, relative: 5e-2 } })[0]).toBe(
    'NOT_MEASURED',
  );
  expect(correctness({ ...verified, tolerance: { profile: 'strict', absolute: 1e-3, relative: 1e-3 } })[0]).toBe(
    'PASS',
  );
});

test('the success gate counts shapes whose speedup over every backend has a high enough lower end', () => {
  const on = (text: string, ...speedups: number[]) => ({
    ...cold,
    shape: parseShape(text),
    sdpa: speedups.map((speedup, index) => sdpa(`sdpa/${index}`, speedup)),
  });
  const success = (...benchmarks: VariantInit['benchmarks'] & object) => brief(answers({ benchmarks })['success']!);
  expect(success(on('2x8x512x64', 1.3, 2), on('1x8x512x64', 1.2))).toEqual(['PASS', 2]);
  expect(success(on('2x8x512x64', 1.3, 1.11), on('1x8x512x64', 1.2))).toEqual(['FAIL', 1]);
});

test('register gates use the entries that the benchmarked shape launches, and name the others', () => {
  const entries = [
    { ...entry, shapes: ['2x8x512x64', '1x8x512x64'] },
    { ...entry, entry: 'split', registersPerThread: 120, shapes: ['1x4x128x64'] },
  ];
  const registers = (variant: VariantInit, benchmarked = [canonical]) => {
    const { value, detail } = answers(variant, { benchmarked })['registers']!;
    return [value, detail];
  };
  expect(registers({ build: { succeeded: true, entries } })).toEqual([
    60,
    expect.stringMatching(/^attend: .*; 1 more entry is not launched for 2x8x512x64$/),
  ]);
  const other = parseShape('1x4x128x64');
  expect(registers({ build: { succeeded: true, entries } }, [other])[0]).toBe(120);
  expect(registers({ build: { succeeded: true, entries } }, [canonical, other])).toEqual([
    120,
    expect.stringMatching(/^split: .*, the highest of 2 entries/),
  ]);
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

test('with a champion in the same job the history gates use the smaller interleaved ratio of time and cycles', () => {
  const hot = { ...cold, mode: TimingMode.HOT };
  const both = (comparison: NonNullable<VariantInit['comparison']>) => {
    const all = answers({ benchmarks: [hot], comparison });
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
    reason: 'the champion differs from itself',
    champion: { label: 'flashcore_v9' },
    shapes,
  });
  expect(refused.map(({ verdict, detail }) => [Verdict[verdict], detail])).toEqual(
    Array(2).fill(['NOT_MEASURED', 'the champion differs from itself']),
  );
});

const MANIFEST = `
id: own_gates
title: Judged by its own
lesson: targets travel
source: own_gates.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
launches: [{ entry: f, grid: [1, 1, 1], block: [1, 1, 1], arguments: [] }]
gates:
  - { id: tensor_cores, level: "off", why: a scalar kernel has none }
  - { id: registers, target: 128, arch: sm_90, why: fragments live in registers }
  - { id: regression, level: warn, plans: [merge], why: a step on the way }
  - { id: tail_p99, metric: latency_us, mode: hot, statistic: p99, op: "<", target: 9, unit: us, why: jitter hurts }
`;

test('four samples have a median but no interval to judge it by', () => {
  const text = `
default: mine
gates:
  - { id: median, metric: latency_us, op: "<", target: 30, why: speed }
  - { id: upper, metric: latency_us, statistic: p50_high, op: "<", target: 30, why: speed }
plans:
  mine: { title: Mine, about: all, from: here, gates: { median: hard, upper: hard } }
`;
  const own = parseGates(text, 'mine.yaml');
  const gates = plannedGates(own, { plan: findPlan(own, ''), own: [], arch });
  const answers = (samples: number) => {
    const variant = create(VariantResultSchema, { benchmarks: [{ ...cold, latency: { ...latency(20), samples } }] });
    const seen = { undocumented: [], noChampion: undefined, verified: [], benchmarked: [canonical] };
    return evaluateGates(gates, { cases, variant, ...seen }).map(({ verdict, valueHigh }) => [
      Verdict[verdict],
      valueHigh,
    ]);
  };
  expect([answers(4), answers(5)]).toEqual([
    [
      ['PASS', undefined],
      ['NOT_MEASURED', undefined],
    ],
    [
      ['PASS', 20 * 1.01],
      ['PASS', undefined],
    ],
  ]);
});

test('a manifest changes targets, makes exceptions with a reason, and adds gates of its own', () => {
  const own = parseManifest(MANIFEST, 'kernel.yaml').gates;
  const planned = (plan: string, on: string) =>
    new Map(
      plannedGates(file, { plan: findPlan(file, plan), own, arch: on }).map((gate) => [
        gate.id,
        [gate.level, gate.target, gate.ownReason],
      ]),
    );
  const merge = planned('merge', 'sm_90a');
  expect(['tensor_cores', 'registers', 'regression', 'tail_p99', 'spills'].map((id) => merge.get(id))).toEqual([
    ['off', 40, 'a scalar kernel has none'],
    ['warn', 128, 'fragments live in registers'],
    ['warn', 0.99, 'a step on the way'],
    ['hard', 9, 'jitter hurts'],
    ['hard', 0, undefined],
  ]);
  expect(['registers', 'regression'].map((id) => planned('final', 'sm_89').get(id))).toEqual([
    ['warn', 64, undefined],
    ['hard', 0.99, undefined],
  ]);
  // A plan that only shows results does not judge gates that a kernel adds.
  expect(planned('explore', 'sm_89').get('tail_p99')).toEqual(['warn', 9, 'jitter hurts']);
  expect(gateNeeds(plannedGates(file, { plan: findPlan(file, 'nsight'), own, arch }), cases).modes).toEqual(['hot']);
});

test('a gate with level off shows its value without a verdict', () => {
  const own = parseManifest(MANIFEST, 'kernel.yaml').gates;
  const gates = plannedGates(file, { plan: findPlan(file, 'nsight'), own, arch });
  const variant = create(VariantResultSchema, {
    profile: { metrics: [{ name: 'tensor_pipe_percent', value: 0, source: 'ncu' }] },
  });
  const context = { variant, cases, undocumented: [], noChampion: undefined, verified: [], benchmarked: [] };
  const off = evaluateGates(gates, context).find(({ gateId }) => gateId === 'tensor_cores')!;
  expect([Verdict[off.verdict], off.value, off.level]).toEqual(['NOT_JUDGED', 0, 'off']);
  expect(off.detail).toMatch(/^a scalar kernel has none \(/);
});

test('missing documentation fails no run: a hard gate only prevents an acceptance, and a softer gate warns', () => {
  const context = { undocumented: ['NOTES.md'], noChampion: undefined, verified: [], benchmarked: [] };
  const answer = (level: string) => {
    const own = parseGates(
      `
default: mine
gates:
  - { id: documented, metric: documentation_missing, op: "==", target: 0, why: others read it }
plans:
  mine: { title: Mine, about: all, from: here, gates: { documented: ${level} } }
`,
      'mine.yaml',
    );
    const gates = plannedGates(own, { plan: findPlan(own, ''), own: [], arch });
    const variant = create(VariantResultSchema, {});
    const [result] = evaluateGates(gates, { ...context, cases, variant });
    return [Verdict[result!.verdict], outcomeOfVariant(create(VariantResultSchema, { gates: [result!] }))];
  };
  expect([answer('hard'), answer('warn')]).toEqual([
    ['NOT_JUDGED', Outcome.PASSED],
    ['FAIL', Outcome.PASSED],
  ]);
});

test("a gate that the emulator's counters decide says so, and so does its group", () => {
  const text = `
default: mine
gates:
  - { id: conflicts, metric: smem_bank_conflict_percent, op: "<", target: 5, why: serialized }
  - { id: either, any_of: [conflicts], why: one is enough }
  - { id: nan, metric: nan_inf_elements, op: "==", target: 0, why: finite }
plans:
  mine: { title: Mine, about: all, from: here, gates: { conflicts: hard, either: hard, nan: hard } }
`;
  const own = parseGates(text, 'mine.yaml');
  const gates = plannedGates(own, { plan: findPlan(own, ''), own: [], arch });
  const answers = (modelled: boolean) => {
    const variant = create(VariantResultSchema, {
      profile: { modelled, metrics: [{ name: 'smem_bank_conflict_percent', value: 3, source: 'counted' }] },
      verify: verified,
    });
    const context = { variant, cases, undocumented: [], noChampion: undefined, verified: [], benchmarked: [] };
    return evaluateGates(gates, context).map((gate) => [gate.gateId, Verdict[gate.verdict], gate.modelled]);
  };
  expect(answers(true)).toEqual([
    ['conflicts', 'PASS', true],
    ['either', 'PASS', true],
    ['nan', 'PASS', false],
  ]);
  expect(answers(false).map(([, , modelled]) => modelled)).toEqual([false, false, false]);
});

test('any metric can be a gate: percentiles, single shapes, stalls, counters by their own name', () => {
  const text = `
default: mine
gates:
  - { id: p99, metric: latency_us, statistic: p99, shape: 1x8x512x64, op: "<", target: 30, why: spread }
  - { id: worst, metric: latency_us, mode: hot, shape: success, op: "<", target: 10, why: both shapes }
  - { id: low, metric: speedup_vs_sdpa, statistic: low, backend: flash, op: ">=", target: 2, why: the lower end }
  - { id: stall, metric: stall_barrier, op: "<", target: 1, why: barriers }
  - { id: counter, metric: sm__inst_executed_pipe_tensor.sum, op: ">", target: 0, why: tensor instructions }
plans:
  mine: { title: Mine, about: all, from: here, gates: { p99: hard, worst: hard, low: hard, counter: hard } }
`;
  const own = parseGates(text, 'mine.yaml');
  const gates = plannedGates(own, { plan: findPlan(own, ''), own: [], arch });
  expect(gateNeeds(gates, cases)).toMatchObject({
    counters: ['sm__inst_executed_pipe_tensor.sum'],
    modes: ['cold', 'hot'],
  });
  const on = (shape: string, mode: TimingMode, p99Us: number) => ({
    ...cold,
    shape: parseShape(shape),
    mode,
    latency: { ...latency(p99Us), p99Us },
  });
  const variant = create(VariantResultSchema, {
    benchmarks: [
      on('1x8x512x64', TimingMode.COLD, 31),
      on('2x8x512x64', TimingMode.COLD, 20),
      on('1x8x512x64', TimingMode.HOT, 9),
      on('2x8x512x64', TimingMode.HOT, 12),
    ],
    profile: {
      verdict: Verdict.PASS,
      metrics: [{ name: 'sm__inst_executed_pipe_tensor.sum', value: 4096, source: 'ncu' }],
      stalls: [{ name: 'barrier', value: 0.5, source: 'ncu' }],
    },
  });
  const results = evaluateGates(gates, {
    variant,
    cases,
    undocumented: [],
    noChampion: undefined,
    verified: [],
    benchmarked: [],
  });
  expect(results.map((result) => [result.gateId, ...brief(result)])).toEqual([
    ['p99', 'FAIL', 31],
    ['worst', 'FAIL', 12],
    ['low', 'PASS', 2.4 * 0.98],
    ['stall', 'PASS', 0.5],
    ['counter', 'PASS', 4096],
  ]);
});

test('a counter that the profiler does not know fails its gate, and one that it could not read is not measured', () => {
  const text = `
default: mine
gates:
  - { id: misspelt, metric: sm__inst_exceuted.sum, op: "<", target: 9, why: few }
  - { id: shown, metric: sm__inst_exceuted.sum, op: "<", target: 9, why: few }
  - { id: barriers, metric: barrier_instructions, op: "<=", target: 4, why: each waits }
plans:
  mine: { title: Mine, about: all, from: here, gates: { misspelt: hard, shown: off, barriers: hard } }
`;
  const own = parseGates(text, 'mine.yaml');
  const gates = plannedGates(own, { plan: findPlan(own, ''), own: [], arch });
  const answers = (profile: MessageInitShape<typeof ProfileResultSchema>) =>
    evaluateGates(gates, {
      variant: create(VariantResultSchema, { profile }),
      cases,
      undocumented: [],
      noChampion: undefined,
      verified: [],
      benchmarked: [],
    }).map(({ verdict, detail }) => `${Verdict[verdict]} ${detail}`);
  const unknown = 'the profiler has no sm__inst_exceuted.sum: ncu --query-metrics lists what it knows';
  expect(answers({ verdict: Verdict.PASS, metrics: [{ name: 'dram__bytes.sum', value: 1 }] })).toEqual([
    `FAIL ${unknown}`,
    `NOT_MEASURED ${unknown}`,
    'NOT_MEASURED only the emulator counts barrier_instructions',
  ]);
  const refused = 'ncu ended with exit status 9: Failed to find metric sm__inst_exceuted.sum';
  expect(answers({ verdict: Verdict.NOT_MEASURED, reason: refused })[0]).toMatch(/^FAIL .*exit status 9/);
  expect(answers({ verdict: Verdict.NOT_MEASURED, reason: 'the driver permits no counters' })).toEqual([
    'NOT_MEASURED the driver permits no counters',
    'NOT_MEASURED the driver permits no counters',
    'NOT_MEASURED only the emulator counts barrier_instructions',
  ]);
  const counted = [{ name: 'barrier_instructions', value: 8, source: 'modelled' }];
  expect(answers({ verdict: Verdict.PASS, modelled: true, reason: 'no time', metrics: counted })).toEqual([
    'NOT_MEASURED no time',
    'NOT_MEASURED no time',
    'FAIL modelled; each waits',
  ]);
});

test('resource metrics reject only in the nsight plans', () => {
  const means = ['registers', 'shared_memory', 'theoretical_ctas', 'resident_ctas', 'tensor_cores', 'dram'];
  const rejecting = [...file.plans.values()].filter(({ gates }) => means.some((id) => gates.get(id)?.level === 'hard'));
  expect(rejecting.map(({ name }) => name)).toEqual(['nsight', 'nsight_busy']);
});

test.each([
  [
    'metric: spill_bytes',
    'metric: spil_bytes',
    /gates\[0\]\.metric: "spil_bytes" is not a metric \(did you mean "spill_bytes"\?\)/,
  ],
  ['statistic: ratio', 'statistic: p50', /gates\[2\]\.statistic: must be one of ratio, low, high, got "p50"/],
  ['metric: local_bytes', 'metric: local_bytes\n    mode: hot', /local_bytes takes shape/],
  ['op: "<="', 'op: "=<"', /op: must be one of <=, >=, <, >, ==/],
  ['spills: hard', 'spills: hart', /plans\.merge\.gates\.spills: /],
  [
    '{ spills: hard',
    '{ spils: hard',
    /plans\.merge\.gates\.spils: "spils" is not a gate of this file \(did you mean "spills"\?\)/,
  ],
  ['any_of: [latency,', 'any_of: [latenzy,', /gates\[\d+\]\.any_of: "latenzy" is not a gate with a metric/],
  ['target: 64', 'target: many', /target: must be a number, got "many"/],
  ['id: shared_memory', 'id: registers', /the id "registers" is taken/],
  ['default: merge', 'default: merg', /default: "merg" is not a plan of this file \(did you mean "merge"\?\)/],
])('gates.yaml with %j replaced by %j is refused', (was, is, message) => {
  expect(() => parseGates(read('gates.yaml').replace(was, is), 'gates.yaml')).toThrow(message);
});

test('cases.yaml has seven parity cases, and an error about it names the fault', () => {
  expect(cases.sets.parity.length).toBe(7);
  expect(cases.distributions['saturated']).toMatchObject({ name: 'saturated', q: 'normal', logitScale: 32 });
  expect(toleranceProfile(cases, 'strict')).toEqual({ atol: 1e-3, rtol: 1e-3 });
  expect(() => toleranceProfile(cases, 'constructor')).toThrow(FlashcoreError);
  expect(() => parseCases(read('cases.yaml').replace('set: parity', 'set: party'), 'cases.yaml')).toThrow(
    /"party" is not defined \(did you mean "parity"\?\)/,
  );
  expect(() =>
    parseCases(read('cases.yaml').replace('D: 64, causal: false }', 'D: 0, causal: false }'), 'cases.yaml'),
  ).toThrow(/probes\.shapes\[0\]\.D: must be an integer of 1/);
});

test('a plan mentions head dimensions and masks only if the kernel computes attention', () => {
  const plan = findPlan(file, 'merge');
  const requirements = (problem: string) => planMessage(plan, [], { isDefault: true, problem }).requirements.join('; ');
  expect(requirements('attention')).toMatch(/inputs .*S and D multiples of 16/);
  expect(requirements('rmsnorm')).toMatch(/^inputs /);
  expect(requirements('rmsnorm')).not.toMatch(/S and D|causal/);
});
