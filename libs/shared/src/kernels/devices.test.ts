import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  archLimits,
  arithmeticPeak,
  DATA_SHEETS,
  findDataSheet,
  occupancy,
  rooflineSeconds,
  launchWaves,
} from './devices.ts';
import { TENSOR_DTYPES } from '../data/dtype.ts';

// Answers of cudaOccMaxActiveBlocksPerMultiprocessor (cuda_occupancy.h of CUDA 13.0) for random kernels: arch,
// registers, shared bytes, threads, CTAs. In a run of 16,000 kernels all agreed.
const NVIDIA_SAYS: [string, number, number, number, number][] = [
  ['sm_80', 133, 72165, 1024, 0],
  ['sm_80', 131, 0, 512, 0],
  ['sm_80', 166, 165379, 128, 1],
  ['sm_80', 205, 0, 768, 0],
  ['sm_80', 222, 32688, 512, 0],
  ['sm_80', 146, 0, 288, 1],
  ['sm_80', 105, 0, 1000, 0],
  ['sm_80', 144, 0, 384, 1],
  ['sm_80', 119, 161602, 160, 1],
  ['sm_80', 96, 0, 768, 0],
  ['sm_80', 194, 0, 160, 1],
  ['sm_80', 54, 145568, 192, 1],
  ['sm_80', 69, 55948, 96, 2],
  ['sm_80', 29, 0, 1000, 2],
  ['sm_80', 107, 59132, 192, 2],
  ['sm_86', 188, 61900, 128, 1],
  ['sm_86', 224, 26682, 64, 3],
  ['sm_86', 42, 8357, 96, 10],
  ['sm_86', 135, 73220, 768, 0],
  ['sm_86', 173, 70366, 1024, 0],
  ['sm_86', 227, 0, 96, 2],
  ['sm_86', 54, 99457, 192, 1],
  ['sm_86', 149, 12002, 1000, 0],
  ['sm_86', 25, 63413, 256, 1],
  ['sm_86', 168, 0, 32, 12],
  ['sm_86', 115, 93733, 1000, 0],
  ['sm_86', 135, 47109, 512, 0],
  ['sm_86', 97, 59813, 512, 1],
  ['sm_86', 74, 99583, 32, 1],
  ['sm_86', 21, 92731, 768, 1],
  ['sm_89', 82, 98438, 288, 1],
  ['sm_89', 153, 93788, 384, 1],
  ['sm_89', 169, 0, 96, 2],
  ['sm_89', 66, 85343, 1024, 0],
  ['sm_89', 216, 0, 160, 1],
  ['sm_89', 185, 0, 192, 1],
  ['sm_89', 213, 65835, 192, 1],
  ['sm_89', 140, 89901, 128, 1],
  ['sm_89', 253, 35599, 128, 2],
  ['sm_89', 168, 87177, 64, 1],
  ['sm_89', 172, 98924, 1000, 0],
  ['sm_89', 187, 0, 288, 0],
  ['sm_89', 16, 32641, 1000, 1],
  ['sm_89', 46, 84523, 1000, 1],
  ['sm_89', 172, 45262, 384, 0],
  ['sm_90', 75, 136203, 256, 1],
  ['sm_90', 174, 115691, 1000, 0],
  ['sm_90', 118, 38195, 64, 5],
  ['sm_90', 241, 70349, 32, 3],
  ['sm_90', 201, 0, 64, 4],
  ['sm_90', 119, 0, 160, 3],
  ['sm_90', 194, 113601, 768, 0],
  ['sm_90', 106, 207719, 288, 1],
  ['sm_90', 222, 202090, 128, 1],
  ['sm_90', 109, 0, 288, 1],
  ['sm_90', 198, 0, 512, 0],
  ['sm_90', 19, 26064, 1024, 2],
  ['sm_90', 119, 61070, 32, 3],
  ['sm_90', 40, 198529, 32, 1],
  ['sm_90', 101, 176705, 288, 1],
];

test("occupancy() gives the same CTAs as NVIDIA's calculator", () => {
  const ours = NVIDIA_SAYS.map(([arch, registers, smem, threads]) => [
    arch,
    registers,
    smem,
    threads,
    occupancy({ registers, smem, threads }, archLimits(arch)!).ctasPerSm,
  ]);
  expect(ours).toEqual(NVIDIA_SAYS);
});

test('occupancy() names the limiting resource', () => {
  const l4 = findDataSheet('NVIDIA L4')!;
  expect([
    occupancy({ registers: 64, smem: 0, threads: 128 }, l4),
    occupancy({ registers: 40, smem: 72 * 1024, threads: 128 }, l4),
    occupancy({ registers: 32, smem: 0, threads: 256 }, l4),
    occupancy({ registers: 16, smem: 0, threads: 32 }, l4),
    occupancy({ registers: 16, smem: 100 * 1024, threads: 32 }, l4),
  ]).toEqual([
    { ctasPerSm: 8, warpsPerSm: 32, percent: (100 * 32) / 48, limiter: 'registers' },
    { ctasPerSm: 1, warpsPerSm: 4, percent: (100 * 4) / 48, limiter: 'shared memory' },
    { ctasPerSm: 6, warpsPerSm: 48, percent: 100, limiter: 'threads' },
    { ctasPerSm: 24, warpsPerSm: 24, percent: 50, limiter: 'CTAs' },
    { ctasPerSm: 0, warpsPerSm: 0, percent: 0, limiter: 'shared memory' },
  ]);
});

test('more registers or shared memory never mean more CTAs, and warps never exceed the SM', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...DATA_SHEETS),
      fc.integer({ min: 1, max: 255 }),
      fc.integer({ min: 0, max: 228 * 1024 }),
      fc.integer({ min: 1, max: 1024 }),
      fc.nat(64),
      fc.nat(8192),
      (sheet, registers, smem, threads, moreRegisters, moreSmem) => {
        const { ctasPerSm, warpsPerSm, percent } = occupancy({ registers, smem, threads }, sheet);
        const larger = occupancy({ registers: registers + moreRegisters, smem: smem + moreSmem, threads }, sheet);
        return (
          larger.ctasPerSm <= ctasPerSm &&
          warpsPerSm * 32 <= sheet.maxThreadsPerSm &&
          percent <= 100 &&
          ctasPerSm <= sheet.maxCtasPerSm
        );
      },
    ),
  );
});

test("findDataSheet() finds a GPU by the driver's name, a short name or the emulator's name, and no GPU by a similar name", () => {
  expect(
    ['NVIDIA L4', 'L4', 'flashcore CPU emulator (L4 limits)', 'NVIDIA H200', 'NVIDIA L40S', 'NVIDIA L4000'].map(
      (name) => findDataSheet(name)?.name,
    ),
  ).toEqual(['NVIDIA L4', 'NVIDIA L4', 'NVIDIA L4', 'NVIDIA H200', undefined, undefined]);
  expect([archLimits('sm_90a')?.smemPerCtaOptinBytes, archLimits('sm_75')]).toEqual([227 * 1024, undefined]);
});

test('rooflineSeconds() is the longer of arithmetic and memory time', () => {
  const l4 = findDataSheet('NVIDIA L4')!;
  expect(rooflineSeconds({ flops: 121e12, bytes: 0, dtype: 'fp16' }, l4)).toBeCloseTo(1);
  expect(rooflineSeconds({ flops: 1, bytes: 600e9, dtype: 'fp16' }, l4)).toBeCloseTo(2);
});

test("fp32's peak applies to a kernel that is known to use no tensor cores, if it is known", () => {
  const l4 = findDataSheet('NVIDIA L4')!;
  const of = (rates: Parameters<typeof arithmeticPeak>[0], tensorCores: boolean | undefined) =>
    arithmeticPeak(rates, { dtype: 'fp16', tensorCores });
  expect([of(l4, false), of(l4, true), of(l4, undefined), of({ ...l4, fp32Tflops: 0 }, false)]).toEqual([
    { tflops: 30.3, units: 'fp32 units' },
    ...Array.from({ length: 3 }, () => ({ tflops: 121, units: 'tensor cores' })),
  ]);
  expect(rooflineSeconds({ flops: 30.3e12, bytes: 0, dtype: 'fp16', tensorCores: false }, l4)).toBeCloseTo(1);
});

test('the tensor peak depends on the dtype: bf16 equals fp16, and fp32 has half of it, as TF32', () => {
  const l4 = findDataSheet('NVIDIA L4')!;
  const seconds = TENSOR_DTYPES.map((dtype) => rooflineSeconds({ flops: 121e12, bytes: 0, dtype }, l4));
  expect(seconds).toEqual([1, 1, 2, 1 / 2, 1 / 2, 1 / 2]);
});

test('with a single wave the busiest multiprocessor determines the efficiency, and with several waves the last one does', () => {
  const of = (ctas: number, ctasPerSm: number, multiprocessors: number) => {
    const { waves, tailEfficiencyPercent, text } = launchWaves({ shape: '', ctas, ctasPerSm, multiprocessors });
    return [Number(waves.toFixed(2)), Math.round(tailEfficiencyPercent), text];
  };
  expect([of(128, 1, 132), of(128, 4, 132), of(140, 2, 132), of(2048, 4, 58), of(132, 1, 132)]).toEqual([
    [0.97, 97, '128 CTAs on 132 SMs: one wave, 3 % idle'],
    [0.24, 97, '128 CTAs on 132 SMs: one wave, 3 % idle'],
    [0.53, 53, '140 CTAs on 132 SMs: one wave, 47 % idle'],
    [8.83, 98, '2,048 work items in 8.8 waves on 58 SMs, 2 % idle'],
    [1, 100, '132 CTAs on 132 SMs: one wave, 0 % idle'],
  ]);
});
