import { expect, test } from 'vitest';
import { parsePtxasReport, parseSmemExcess } from './ptxas-report.ts';

// Recorded: nvcc 13.0.88 on kernels/fa_v1_baseline, kernels/faulty/register_spills and kernels/faulty/static_smem_69kb.
const BASELINE_SM_89 = `ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'fa_v1_baseline' for 'sm_89'
ptxas info    : Function properties for fa_v1_baseline
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 18048 bytes smem, 396 bytes cmem[0]
ptxas info    : Compile time = 42.133 ms`.split('\n');

const SPILLS_SM_90 = `ptxas info    : Overriding maximum register limit 256 for 'register_spills' with  32 of maxrregcount option
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'register_spills' for 'sm_90'
ptxas info    : Function properties for register_spills
    608 bytes stack frame, 1296 bytes spill stores, 1092 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 608 bytes cumulative stack size
ptxas info    : Compile time = 53.609 ms`.split('\n');

const SMEM_SM_89 = `ptxas error   : Entry function 'static_smem_69kb' uses too much shared data (0x11400 bytes, 0xc000 max)
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'static_smem_69kb' for 'sm_89'
ptxas info    : Function properties for static_smem_69kb
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 167 registers, used 1 barriers, 70656 bytes smem, 396 bytes cmem[0]`.split('\n');

const zero = { staticSmemBytes: 0, spillStoreBytes: 0, spillLoadBytes: 0, stackBytes: 0, barriers: 0, constantBytes: 0 };

test('parsePtxasReport() reads the report for sm_89', () => {
  expect(parsePtxasReport(BASELINE_SM_89)).toEqual([{ ...zero, entry: 'fa_v1_baseline', arch: 'sm_89', registers: 64, staticSmemBytes: 18048, barriers: 1, constantBytes: 396 }]);
});

test('parsePtxasReport() reads spills for sm_90', () => {
  expect(parsePtxasReport(SPILLS_SM_90)).toEqual([{ ...zero, entry: 'register_spills', arch: 'sm_90', registers: 32, stackBytes: 608, spillStoreBytes: 1296, spillLoadBytes: 1092 }]);
});

test('a called function is not taken for its entry', () => {
  const withCallee = [...BASELINE_SM_89.slice(0, 4), 'ptxas info    : Function properties for helper', '    16 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads', ...BASELINE_SM_89.slice(4)];
  expect(parsePtxasReport(withCallee)).toEqual(parsePtxasReport(BASELINE_SM_89));
});

test('parseSmemExcess() reads entry, size and limit', () => {
  expect([parseSmemExcess(SMEM_SM_89), parseSmemExcess(BASELINE_SM_89)]).toEqual([[{ entry: 'static_smem_69kb', bytes: 70656, limitBytes: 49152 }], []]);
});
