import { expect, test } from 'vitest';
import { parsePtxasReport, parseSmemExcess } from './ptxas-report.ts';

// Recorded with nvcc 13.0.88 on kernels/fa_v1_baseline, kernels/faulty/register_spills and
// kernels/faulty/static_smem_69kb.
const BASELINE_SM_89 = `ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'fa_v1_baseline' for 'sm_89'
ptxas info    : Function properties for fa_v1_baseline
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 18048 bytes smem, 396 bytes cmem[0]
ptxas info    : Compile time = 42.133 ms`.split('\n');

const SPILLS_SM_90 =
  `ptxas info    : Overriding maximum register limit 256 for 'register_spills' with  32 of maxrregcount option
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'register_spills' for 'sm_90'
ptxas info    : Function properties for register_spills
    608 bytes stack frame, 1296 bytes spill stores, 1092 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 608 bytes cumulative stack size
ptxas info    : Compile time = 53.609 ms`.split('\n');

const SMEM_SM_89 =
  `ptxas error   : Entry function 'static_smem_69kb' uses too much shared data (0x11400 bytes, 0xc000 max)
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'static_smem_69kb' for 'sm_89'
ptxas info    : Function properties for static_smem_69kb
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 167 registers, used 1 barriers, 70656 bytes smem, 396 bytes cmem[0]`.split('\n');

const zero = {
  staticSmemBytes: 0,
  spillStoreBytes: 0,
  spillLoadBytes: 0,
  stackBytes: 0,
  barriers: 0,
  constantBytes: 0,
};

test('parsePtxasReport() reads the report for sm_89', () => {
  expect(parsePtxasReport(BASELINE_SM_89)).toEqual([
    {
      ...zero,
      entry: 'fa_v1_baseline',
      arch: 'sm_89',
      registers: 64,
      staticSmemBytes: 18048,
      barriers: 1,
      constantBytes: 396,
    },
  ]);
});

test('parsePtxasReport() reads spills for sm_90', () => {
  expect(parsePtxasReport(SPILLS_SM_90)).toEqual([
    {
      ...zero,
      entry: 'register_spills',
      arch: 'sm_90',
      registers: 32,
      stackBytes: 608,
      spillStoreBytes: 1296,
      spillLoadBytes: 1092,
    },
  ]);
});

// Recorded with nvcc 13.0.88 -maxrregcount=32. Kernel one calls spilling() and plain(), two calls plain(), and three
// calls neither. Both functions are __noinline__.
const CALLS_SM_89 = `ptxas info    : Overriding maximum register limit 256 for 'three' with  32 of maxrregcount option
ptxas info    : Overriding maximum register limit 256 for 'two' with  32 of maxrregcount option
ptxas info    : Overriding maximum register limit 256 for 'one' with  32 of maxrregcount option
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'one' for 'sm_89'
ptxas info    : Function properties for one
    208 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 208 bytes cumulative stack size, 372 bytes cmem[0]
ptxas info    : Compile time = 19.161 ms
ptxas info    : Function properties for _Z5plainf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for _Z8spillingPKfi
    0 bytes stack frame, 352 bytes spill stores, 360 bytes spill loads
ptxas info    : Compiling entry function 'two' for 'sm_89'
ptxas info    : Function properties for two
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 9 registers, used 0 barriers, 372 bytes cmem[0]
ptxas info    : Compile time = 1.143 ms
ptxas info    : Function properties for _Z5plainf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'three' for 'sm_89'
ptxas info    : Function properties for three
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 372 bytes cmem[0]
ptxas info    : Compile time = 3.591 ms`.split('\n');

// Recorded the same way, from a kernel that calls one of two functions through a pointer. The functions' frames are not
// part of the kernel's.
const POINTER_SM_89 = `ptxas info    : Compiling entry function 'pointer' for 'sm_89'
ptxas info    : Function properties for pointer
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers, 216 bytes cumulative stack size, 372 bytes cmem[0], 24 bytes cmem[2]
ptxas info    : Compile time = 15.033 ms
ptxas info    : Function properties for _Z2faPKfi
    216 bytes stack frame, 68 bytes spill stores, 68 bytes spill loads
ptxas info    : Function properties for _Z2fbPKfi
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads`.split('\n');

test("a called function's spills are added to its callers only", () => {
  expect(parsePtxasReport(CALLS_SM_89)).toEqual([
    {
      ...zero,
      entry: 'one',
      arch: 'sm_89',
      registers: 32,
      stackBytes: 208,
      spillStoreBytes: 352,
      spillLoadBytes: 360,
      constantBytes: 372,
    },
    { ...zero, entry: 'two', arch: 'sm_89', registers: 9, constantBytes: 372 },
    { ...zero, entry: 'three', arch: 'sm_89', registers: 8, constantBytes: 372 },
  ]);
});

test("the stack of a function called through a pointer is included in its caller's stack", () => {
  expect(parsePtxasReport(POINTER_SM_89)).toEqual([
    {
      ...zero,
      entry: 'pointer',
      arch: 'sm_89',
      registers: 40,
      stackBytes: 216,
      spillStoreBytes: 72,
      spillLoadBytes: 72,
      constantBytes: 396,
    },
  ]);
});

test('parseSmemExcess() reads entry, size and limit', () => {
  expect([parseSmemExcess(SMEM_SM_89), parseSmemExcess(BASELINE_SM_89)]).toEqual([
    [{ entry: 'static_smem_69kb', bytes: 70656, limitBytes: 49152 }],
    [],
  ]);
});

test("reads NVRTC's report, in which ptxas prints its name before the frame", () => {
  expect(
    parsePtxasReport([
      "ptxas info    : Compiling entry function 'k' for 'sm_90'",
      'ptxas info    : Function properties for k',
      'ptxas         .     8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads',
      'ptxas info    : Used 160 registers, used 1 barriers',
    ]),
  ).toMatchObject([{ entry: 'k', registers: 160, stackBytes: 8, spillStoreBytes: 16, spillLoadBytes: 24 }]);
});
