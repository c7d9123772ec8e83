import { expect, test } from 'vitest';
import { blocksToTrace, kernelCycles } from './multiprocessor.ts';
import { HOPPER } from './machine.ts';
import { NoTimeFor } from './operations.ts';
import type { Statement, TracedLaunch } from './trace.ts';

type Step = [op: string, writes: number[], reads: number[], more?: { passes?: number; value?: number }];

const operand = (kind: string, registers: number[], value = 0) => ({ kind, value, name: '', registers });

/** One CTA with this many warps, each of which runs the statements once. */
function launchOf(steps: readonly Step[], warps = 1): TracedLaunch {
  const statements = steps.map(([op, writes, reads, more]): Statement => ({
    op,
    operands: [
      ...(writes.length > 0 ? [operand(writes.length > 1 ? 'vector' : 'register', writes)] : []),
      ...reads.map((register) => operand(op.startsWith('ld') ? 'address' : 'register', [register])),
      ...(more?.value === undefined ? [] : [operand('immediate', [], more.value)]),
    ],
    guard: -1,
    target: -1,
    isLabel: false,
    isJoined: false,
    bytes: 0,
  }));
  const warp = {
    statements: Uint32Array.from(steps.keys()),
    passes: Uint16Array.from(steps, (step) => step[3]?.passes ?? 0),
  };
  return { statements, blocks: [Array.from({ length: warps }, () => warp)] };
}

const ONE = { ctas: 1, multiprocessors: 132, residents: 1, registers: 128 };
const cycles = (steps: readonly Step[], { warps = 1, ...filling }: Partial<typeof ONE> & { warps?: number } = {}) =>
  kernelCycles(launchOf(steps, warps), HOPPER, { ...ONE, ...filling });

const fma = (to: number, from: number): Step => ['fma.rn.f32', [to], [from, 0, 0]];
const CHAIN = [fma(1, 0), fma(2, 1), fma(3, 2), fma(4, 3), ['st.global.f32', [], [4]] as Step];
const APART = [1, 2, 3, 4].map((to) => fma(to, 0)).concat([['st.global.v4.f32', [], [1, 2, 3, 4]]]);

test('dependent operations take a latency each, and independent ones an issue slot each', () => {
  expect([cycles(CHAIN), cycles(APART)]).toEqual([4 * HOPPER.fma + 1, 3 + HOPPER.fma + 1]);
});

test('warps of one scheduler fill each other’s gaps, and four warps have a scheduler each', () => {
  expect(cycles(CHAIN, { warps: 4 })).toBe(cycles(CHAIN));
  const two = cycles(CHAIN, { warps: 8 });
  expect(two).toBeGreaterThan(cycles(CHAIN));
  expect(two).toBeLessThan(1.5 * cycles(CHAIN));
});

test('wavefronts occupy the pipe that all warps share', () => {
  const load = (passes: number): Step[] => [
    ['ld.shared.f32', [1], [0], { passes }],
    ['st.global.f32', [], [1]],
  ];
  expect(cycles(load(32), { warps: 4 }) - cycles(load(1), { warps: 4 })).toBe(4 * 31);
});

test('a load that depends on nothing is issued before arithmetic that must wait', () => {
  const late: Step[] = [
    ...CHAIN.slice(0, 4),
    ['ld.shared.f32', [5], [6], { passes: 1 }],
    ['st.global.v2.f32', [], [4, 5]],
  ];
  expect(cycles(late)).toBeLessThan(HOPPER.sharedLoad + 4 * HOPPER.fma);
});

test('a barrier waits for the last warp of the CTA', () => {
  const steps: Step[] = [...CHAIN, ['bar.sync', [], [], { value: 0 }]];
  expect(cycles(steps, { warps: 2 })).toBeGreaterThanOrEqual(cycles(CHAIN) + HOPPER.barrier);
});

test('copies arrive before an operation that waits for their group', () => {
  const copy: Step[] = [
    ['cp.async.cg.shared.global', [], [0, 1], { passes: 16 }],
    ['cp.async.commit_group', [], []],
  ];
  const waits = cycles([...copy, ['cp.async.wait_group', [], [], { value: 0 }]]);
  expect(waits).toBeGreaterThan(HOPPER.globalLoad);
  expect(cycles([...copy, ['cp.async.wait_group', [], [], { value: 1 }]])).toBeLessThan(HOPPER.globalLoad);
});

test('CTAs that run one after another each take their full time, and co-resident CTAs overlap', () => {
  const [one, following, resident] = [
    cycles(CHAIN),
    cycles(CHAIN, { ctas: 264 }),
    cycles(CHAIN, { ctas: 264, residents: 2 }),
  ];
  expect(following).toBeGreaterThan(2 * one);
  expect(resident).toBeLessThan(2 * one);
});

test('kernelCycles() throws NoTimeFor for PTX that the model does not cover', () => {
  expect(() => cycles([['wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16', [], [0]]])).toThrow(NoTimeFor);
});

test('causal CTAs are traced at intervals from the first to the last, others only in the middle', () => {
  expect([blocksToTrace(128, false), blocksToTrace(128, true), blocksToTrace(3, true)]).toEqual([
    { first: 64, step: 1, count: 1 },
    { first: 0, step: 18, count: 8 },
    { first: 0, step: 1, count: 8 },
  ]);
});
