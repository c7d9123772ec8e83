import { create } from '@bufbuild/protobuf';
import {
  FindingKind,
  Outcome,
  Verdict,
  FindingSchema,
  JobErrorSchema,
  JobResultSchema,
  VerifyResultSchema,
} from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { findingsSection } from './findings-section.ts';
import { failedExperiment, PLAIN } from './fixtures.ts';
import { jobReport } from './job-report.ts';
import { verifySection } from './verify-section.ts';

test('the report of an experiment has every part in 80 columns', () => {
  expect(`\n${jobReport(failedExperiment, PLAIN).join('\n')}\n`).toBe(REPORT);
  expect(jobReport(failedExperiment, PLAIN).filter((line) => line.length > 80)).toEqual([]);
});

test('no line is wider than a narrow terminal takes, tables apart', () => {
  const wide = jobReport(failedExperiment, { ...PLAIN, width: 60 }).filter((line) => line.length > 60);
  expect(wide.filter((line) => !/ {2,}\S+ {2,}/.test(line) && !line.includes('sha256'))).toEqual([]);
});

test('a second variant stands under its own title', () => {
  const { job, result } = failedExperiment;
  const twice = create(JobResultSchema, {
    ...result,
    variants: [result.variants[0]!, { ...result.variants[0]!, label: 'USE_WMMA=0', fallback: true }],
  });
  const titles = jobReport({ job, result: twice }, PLAIN).filter((line) => line.startsWith('=='));
  expect(titles).toEqual([
    '== USE_WMMA=1 ==  the variant asked for',
    '== USE_WMMA=0 ==  the fallback beside the variant asked for',
  ]);
});

test('a job that the runner could not carry out says why, and its name', () => {
  const job = { ...failedExperiment.job, outcome: Outcome.ERROR, summary: 'no compiler' };
  const error = create(JobErrorSchema, {
    reason: 'COMPILER_MISSING',
    message: 'Wanted g++ or clang++; neither is on the PATH. Install g++',
  });
  expect(jobReport({ job, result: undefined, error }, PLAIN)).toEqual([
    'fa_v2_wmma USE_WMMA=1  experiment',
    '  device     emulator',
    '',
    'COMPILER_MISSING: Wanted g++ or clang++; neither is on the PATH. Install g++',
    'no compiler',
    'ERROR  jobs/01234567-89ab-4cde-8f01-23456789abcd',
  ]);
});

test('where no element is finite there is no error to tell, rather than 0', () => {
  const shape = { batch: 1, heads: 2, sequenceLength: 64, headDim: 64 };
  const cases = [
    {
      shape,
      verdict: Verdict.FAIL,
      reason: 'NAN_OUTPUT: all',
      seeds: 1,
      mismatches: 8192n,
      nanCount: 8192n,
      elements: 8192n,
      fp16MaxAbsError: 4e-4,
    },
    {
      shape,
      verdict: Verdict.FAIL,
      seeds: 1,
      maxAbsError: 0.5,
      meanAbsError: 0.25,
      nanCount: 8191n,
      elements: 8192n,
      fp16MaxAbsError: 0.25,
    },
  ];
  const rows = verifySection(create(VerifyResultSchema, { cases }), PLAIN).filter((line) =>
    line.startsWith('  1x2x64x64  '),
  );
  expect(rows.map((row) => row.trim().split(/ {2,}/))).toEqual([
    ['1x2x64x64', '1', '-', '-', '-', '8192', 'FAIL'],
    ['1x2x64x64', '1', '5.00e-1', '2.50e-1', '2', '0', 'FAIL'],
  ]);
});

test('a deadlock names its threads in ranges, an access its place', () => {
  const waiting = Array.from({ length: 40 }, (_, x) => ({
    thread: [x, 0, 0],
    block: [2, 1, 0],
    place: x < 32 ? 'waits at __syncthreads, divergent_barrier.cu:31' : 'has returned',
  }));
  const finding = create(FindingSchema, {
    kind: FindingKind.DEADLOCK,
    message: '128 threads wait.',
    remedy: 'Let every thread reach the barrier.',
    threads: waiting,
    threadCount: 128,
    cudaError: 'CUDA_ERROR_LAUNCH_FAILED',
    location: {
      file: 'divergent_barrier.cu',
      line: 31,
      block: [2, 1, 0],
      thread: [0, 0, 0],
      access: 'write',
      accessBytes: 2,
      address: '0x7f00',
      buffer: '16 bytes past the end of O',
    },
  });
  expect(findingsSection([finding], PLAIN)).toEqual([
    'Findings',
    '  DEADLOCK',
    '    128 threads wait.',
    '    where      divergent_barrier.cu:31, block (2, 1, 0), thread (0, 0, 0), write',
    '               of 2 bytes at 0x7f00, 16 bytes past the end of O',
    '    threads    block (2, 1, 0) 0-31 waits at __syncthreads,',
    '               divergent_barrier.cu:31',
    '    threads    block (2, 1, 0) 32-39 has returned',
    '    threads    and 88 more, 128 in all',
    '    CUDA       CUDA_ERROR_LAUNCH_FAILED',
    '    remedy     Let every thread reach the barrier.',
  ]);
});

const REPORT = `
fa_v2_wmma USE_WMMA=1  experiment
  device     flashcore CPU emulator (L4 limits), sm_89, 58 SMs, simulated

Go/no-go
  inputs     pass: fp16
  shapes     pass: S and D of all 2 shapes are divisible by 16

Build  compiled, 2.61 s
  nvcc       13.0.88 for sm_89, 1.10 s
  g++        12.2.0 for emulator, cached (first took 1.42 s)
  ptxas      sm_89
  entry       regs  SMEM B  spill B  stack B  CTAs/SM  occupancy  bound by
  fa_v2_wmma    40   24576        0        0        4     33.3 %  SMEM
  warning  fa_v2_wmma.cu:31:7  nvcc
    variable "x" was declared but never referenced

Verify  1 of 2 cases passed, 3.20 s
  |out - ref| <= 0.01 + 0.01 |ref| (parity); reference: fp64 on the CPU
  case BxHxSxD  seeds  max error  mean error  max/fp16  mismatches  verdict
  1x8x512x64        5    4.88e-4     1.31e-5      1.19           0  pass
  1x8x512x64c       1    2.50e-1     2.00e-5         -           3  FAIL
  max/fp16: max error over that of plain fp16 attention; 2 is allowed
  1x8x512x64c: 3 of 262144 elements outside the tolerance; worst O[b 0, h 3, s
  17, d 5] got 0.5, want 0.25

Latency 2x8x512x64  hot (back to back)
  simulated: emulator times are not GPU times
    p50    p90    p99   mean  stddev    min    max
  81.42  84.00  91.30  81.95   1.200  79.90  92.00  ms
  p50 within [81.10, 81.80] ms at 95 %
        ████
        ████
        ████▆▆▆▆
        ████████
    ▆▆▆▆████████▄▄▄▄
    ████████████████▇▇▇▇▄▄▄▄▁▁▁▁▁▁▁▁    ▂▂▂▂
    ┴─────────┴─────────┴────────┴─────────┴
    79.90     82.92     85.95    88.67     91.70 ms
  samples    100; converged
  sdpa       not measured: no PyTorch on this host
  conditions not measured: no GPU
  checked    after timing: same as verified
  not valid  emulator times are not GPU times

Profile
  not measured: the emulator has no hardware counters

Gates  1 of 4 gates passed, 1 failed, 2 not measured, 1 shown as missed
  answer        gate                              value           target
  pass          Registers a thread                   40  <= 64 registers
    fa_v2_wmma; source: ptxas sm_89
  FAIL          Shared memory a CTA               73728       <= 49152 B
    source: ptxas and the launch
  fail (warn)   CTAs an SM, calculated                1        >= 4 CTAs
    source: ptxas sm_89
  not measured  Latency p50, canonical shape          -          < 25 us
    emulator times are not GPU times
  not measured  No slower than the best accepted      -        >= 0.99 x
    no accepted version yet

Findings
  WRONG_RESULT
    3 of 262144 elements are outside the tolerance, all in head 3.
    case       1x8x512x64c
    remedy     Look at the last tile of the causal mask.

Provenance
  device     flashcore CPU emulator (L4 limits), sm_89, 58 SMs, simulated
  driver     CUDA 13.0 (of the emulator)
  tools      g++ 12.2.0, nvcc 13.0.88
  conditions not measured: the emulator has no clocks, temperature or power
  source     abababababababababababababababababababababababababababababababab
  flags      cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd
  seeds      verify 0123456789abcdef; timing fedcba9876543210
  protocol   flashcore-protocol 1
  runner     0.1.0 (build abcdef012345) on laptop
  started    2026-11-21 11:00:00Z
  cost       device held for 12.3 s

1 of 2 cases failed
WRONG RESULT  jobs/01234567-89ab-4cde-8f01-23456789abcd
`;
