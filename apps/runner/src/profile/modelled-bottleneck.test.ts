import { findDataSheet } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { modelledBottleneck } from './modelled-bottleneck.ts';

const L4 = findDataSheet('NVIDIA L4')!;
// 58 multiprocessors x 4 instructions x 2.04 GHz are 473 instructions a nanosecond.
const COMPUTED = { dtype: 'fp16', flops: 1e6, bytes: 300 } as const; // 1 ns of device memory

const told = (
  counts: Record<string, number>,
  lines: Record<string, Record<string, number>> = {},
  more: Partial<Parameters<typeof modelledBottleneck>[0]> = {},
): string | undefined =>
  modelledBottleneck({
    sheet: L4,
    computed: COMPUTED,
    launches: [{ entry: 'k', blocks: 1, counts, lines }],
    filled: 1,
    countsShared: true,
    ...more,
  });

test('the unit that takes longest is named with its lead over the next one, and with the line that needs it most', () => {
  const lines = {
    'k.cu:34': { shared_load_wavefronts: 900 },
    'k.cu:53': { shared_store_wavefronts: 100, instructions: 1000 },
  };
  expect(told({ instructions: 1000, shared_load_wavefronts: 900, shared_store_wavefronts: 100 }, lines)).toBe(
    'shared memory: its 1,000 wavefronts take 4 times as long as issuing the instructions; line 34 of k.cu makes 90 % of the wavefronts',
  );
});

test('a kernel that moves much and computes little is bound by device memory', () => {
  const lines = { 'rms.cu:48': { global_load_sectors: 62 }, 'rms.cu:50': { global_store_sectors: 38 } };
  expect(told({ instructions: 100, global_load_sectors: 62, global_store_sectors: 38 }, lines)).toBe(
    'device memory: moving every tensor once takes 4.7 times as long as issuing the instructions; line 48 of rms.cu makes 62 % of the traffic before the caches',
  );
});

test('a launch that fills half of the multiprocessors keeps them busy twice as long', () => {
  expect(told({ instructions: 300 })).toMatch(/^device memory: moving every tensor once takes 1.6 times/);
  expect(told({ instructions: 300 }, {}, { filled: 0.5 })).toMatch(/^instruction issue: .* take 1.3 times as long/);
});

test('if two units take about the same time, the text says so; lines with a small share are not named', () => {
  const lines = Object.fromEntries(Array.from({ length: 20 }, (_, line) => [`k.cu:${line + 1}`, { instructions: 25 }]));
  expect(told({ instructions: 500 }, lines)).toBe(
    'instruction issue: its 500 warp instructions of PTX take about as long as moving every tensor through device memory',
  );
});

test('lines that make about the same are named together', () => {
  const lines = { 'k.cu:61': { instructions: 350 }, 'k.cu:70': { instructions: 349 }, 'k.cu:9': { instructions: 301 } };
  expect(told({ instructions: 1000 }, lines)).toMatch(/; lines 61 and 70 of k\.cu make 35 % of the instructions each$/);
  const four = Object.fromEntries([50, 51, 69, 70].map((line) => [`k.cu:${line}`, { instructions: 170 }]));
  expect(
    told({ instructions: 1000 }, { ...four, 'k.cu:9': { instructions: 120 }, 'k.cu:8': { instructions: 120 } }),
  ).toMatch(/; lines 50, 51, 69 and 70 of k\.cu make 18 % of the instructions each$/);
});

test('no bottleneck is named without counts, or if a GPU would count other wavefronts', () => {
  expect(told({}, {}, { computed: { ...COMPUTED, bytes: 0 } })).toBeUndefined();
  expect(told({ instructions: 1000, shared_load_wavefronts: 9000 }, {}, { countsShared: false })).toBeUndefined();
});
