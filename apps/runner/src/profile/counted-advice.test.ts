import { expect, test } from 'vitest';
import { countedAdvice } from './counted-advice.ts';

const LANES = 32;
const PRODUCTS = { dtype: 'fp16', flops: 1e9, bytes: 1e6 } as const;
const launch = (counts: Record<string, number>, lines: Record<string, Record<string, number>> = {}) => ({
  entry: 'attend',
  blocks: 1,
  counts: { lanes: LANES * counts['instructions']!, ...counts },
  lines,
});

test('advice for a scalar kernel names its largest instruction families and their lines', () => {
  const advice = countedAdvice(
    launch(
      {
        ...{ instructions: 1000, memory: 320, conversion: 280, fma: 200, integer: 150 },
        ...{ shared_load_requests: 200, shared_load_wavefronts: 260 },
      },
      {
        'k.cu:38': { conversion: 70, shared_load_requests: 50 },
        'k.cu:127': { conversion: 140, shared_load_requests: 120 },
        'k.cu:140': { conversion: 30 },
      },
    ),
    PRODUCTS,
  );
  expect(advice.map(({ rule, evidence }) => [rule, evidence])).toEqual([
    [
      'shared loads',
      'memory instructions are 32 % of all; 200 shared-memory loads for 200 multiply-adds; most on line 127 (60 % of the loads) and line 38 (25 %)',
    ],
    [
      'conversions',
      'conversions are 28 % of all instructions; most on line 127 (50 % of the conversions) and line 38 (25 %)',
    ],
  ]);
});

test('lines of several files are named with their files', () => {
  const counts = { instructions: 100, fma: 70 };
  const lines = { 'k.cu:61': { fma: 35 }, 'mechanisms/rows.cuh:70': { fma: 30 } };
  expect(countedAdvice(launch(counts, lines), PRODUCTS)[0]!.evidence).toContain(
    'most on line 61 of k.cu (50 % of the multiply-adds) and line 70 of mechanisms/rows.cuh (43 %)',
  );
});

test('a kernel whose instructions are well spent gets no advice', () => {
  const tensor = launch({
    instructions: 1000,
    memory: 200,
    tensor: 300,
    fma: 100,
    integer: 200,
    shared_load_requests: 90,
  });
  expect(countedAdvice(tensor, PRODUCTS)).toEqual([]);
});

test('scattered accesses and idle lanes have rules of their own', () => {
  const loads = { global_load_requests: 10, global_load_sectors: 320, global_load_bytes: 1280 };
  const counts = { instructions: 100, lanes: 1600, ...loads };
  expect(countedAdvice(launch(counts), PRODUCTS).map(({ rule }) => rule)).toEqual(['idle lanes', 'scattered accesses']);
});

test('a strided line is found among lines that read whole sectors, or the same bytes in all lanes', () => {
  const whole = { global_load_requests: 100, global_load_sectors: 1600, global_load_bytes: 51_200 };
  const same = { global_load_requests: 500, global_load_sectors: 500, global_load_bytes: 64_000 };
  const strided = { global_load_requests: 50, global_load_sectors: 1600, global_load_bytes: 3200 };
  const counts = { global_load_requests: 650, global_load_sectors: 3700, global_load_bytes: 118_400 };
  const kernel = launch(
    { instructions: 10_000, memory: 650, ...counts },
    { 'k.cu:10': whole, 'k.cu:12': same, 'k.cu:20': strided },
  );
  expect(countedAdvice(kernel, PRODUCTS)).toEqual([
    {
      rule: 'scattered accesses',
      text: 'Lanes of a warp load from scattered places: let adjacent lanes read adjacent addresses, or go through shared memory',
      evidence:
        '5.69 sectors of 32 bytes a request, and 41 % of their bytes are not used; most on line 20 (100 % of the unused bytes)',
    },
  ]);
});

test('advice for a matrix product on the fp32 units names tensor cores and every line that multiplies', () => {
  const counts = { instructions: 100, fma: 70 };
  const lines = { 'k.cu:61': { fma: 35 }, 'k.cu:70': { fma: 35 } };
  expect(countedAdvice(launch(counts, lines), PRODUCTS)).toEqual([
    {
      rule: 'no tensor cores',
      text: 'Multiply-adds fill the issue slots: give the matrix products to tensor cores (WMMA or mma.sync), where one instruction does hundreds of them',
      evidence:
        "multiply-adds are 70 % of all instructions, none is a tensor core's; most on line 61 (50 % of the multiply-adds) and line 70 (50 %)",
    },
  ]);
  // Tensor cores can compute neither a row's sum nor fp32 products.
  expect(countedAdvice(launch(counts), { ...PRODUCTS, flops: 1e6 })).toEqual([]);
  expect(countedAdvice(launch(counts), { ...PRODUCTS, dtype: 'fp32' })).toEqual([]);
});

test('a kernel that shared memory bounds is advised about its loads first, however few they are', () => {
  const counts = { instructions: 1000, memory: 150, conversion: 280, fma: 390, shared_load_requests: 110 };
  const rules = (bound: boolean): string[] => countedAdvice(launch(counts), PRODUCTS, bound).map(({ rule }) => rule);
  expect([rules(false), rules(true)]).toEqual([['conversions'], ['shared loads', 'conversions']]);
});

test('a kernel that shared memory bounds is advised about wavefronts, on every line that takes as many', () => {
  const matrixLoads = { shared_load_wavefronts: 2000 };
  const lines = {
    ...{ 'k.cu:50': matrixLoads, 'k.cu:51': matrixLoads, 'k.cu:69': matrixLoads, 'k.cu:70': matrixLoads },
    'k.cu:64': { shared_load_requests: 150, shared_load_wavefronts: 1000 },
  };
  const counts = { instructions: 4000, memory: 500, tensor: 400, shared_load_requests: 230 };
  const kernel = launch({ ...counts, shared_load_wavefronts: 10_000 }, lines);
  expect(countedAdvice(kernel, PRODUCTS, true)[0]?.evidence).toBe(
    'memory instructions are 13 % of all; 10,000 wavefronts of shared-memory loads for 400 multiply-adds; most on line 50 (20 % of the wavefronts), line 51 (20 %), line 69 (20 %) and line 70 (20 %)',
  );
});

test('if many lines cost the same, the others are counted', () => {
  const lines = Object.fromEntries(Array.from({ length: 9 }, (_, line) => [`k.cu:${line + 1}`, { fma: 10 }]));
  expect(countedAdvice(launch({ instructions: 100, fma: 90 }, lines), PRODUCTS)[0]?.evidence).toMatch(
    /; most on line 1 \(11 % of the multiply-adds\), line 2 \(11 %\) and 7 others as much$/,
  );
});
