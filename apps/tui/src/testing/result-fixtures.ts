/** Results in the form that a runner gives them, for the tests of reports. */
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  DeviceState,
  FindingKind,
  JobKind,
  JobState,
  Outcome,
  StopReason,
  TimingMode,
  Verdict,
  JobResultSchema,
  JobSchema,
  type DeviceSchema,
  type GateResultSchema,
  type VariantResultSchema,
} from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import type { ReportFormat } from '../present/plain/report-format.ts';

export const PLAIN: ReportFormat = { width: 80, colors: false, ascii: false };

const TIME = { seconds: 1_795_258_800n, nanos: 0 };
const NAME = 'jobs/01234567-89ab-4cde-8f01-23456789abcd';

export const emulator: MessageInitShape<typeof DeviceSchema> = {
  deviceId: 'emulator',
  name: 'flashcore CPU emulator (L4 limits)',
  simulated: true,
  arch: 'sm_89',
  multiprocessors: 58,
  memoryBytes: 4_294_967_296n,
  l2Bytes: 50_331_648n,
  smemOptinBytes: 101_376,
  smemPerMultiprocessorBytes: 102_400,
  registersPerMultiprocessor: 65_536,
  driverVersion: '13.0',
  state: DeviceState.READY,
  roofline: { fp16TensorTflops: 121, memoryGbPerSecond: 300, source: 'NVIDIA L4 data sheet' },
};

export const gates: MessageInitShape<typeof GateResultSchema>[] = [
  {
    gateId: 'registers',
    title: 'Registers/thread',
    verdict: Verdict.PASS,
    value: 40,
    comparison: '<=',
    target: 64,
    unit: 'registers',
    level: 'hard',
    detail: 'fa_v2_wmma',
    source: 'ptxas sm_89',
  },
  {
    gateId: 'shared_memory',
    title: 'SMEM/CTA',
    verdict: Verdict.FAIL,
    value: 73_728,
    comparison: '<=',
    target: 49_152,
    unit: 'B',
    level: 'hard',
    source: 'ptxas and the launch',
  },
  {
    gateId: 'ctas',
    title: 'CTAs/SM, calculated',
    verdict: Verdict.FAIL,
    value: 1,
    comparison: '>=',
    target: 4,
    unit: 'CTAs',
    level: 'warn',
    source: 'ptxas sm_89',
  },
  {
    gateId: 'latency',
    title: 'Latency p50, canonical shape',
    verdict: Verdict.NOT_MEASURED,
    comparison: '<',
    target: 25,
    unit: 'us',
    level: 'hard',
    detail: 'emulator times are not GPU times',
  },
  {
    gateId: 'regression',
    title: 'No slower than the best accepted',
    verdict: Verdict.NOT_MEASURED,
    comparison: '>=',
    target: 0.99,
    unit: 'x',
    level: 'hard',
    detail: 'no accepted version yet',
  },
];

const variant: MessageInitShape<typeof VariantResultSchema> = {
  label: 'USE_WMMA=1',
  parameters: { USE_WMMA: 1n },
  build: {
    succeeded: true,
    seconds: 2.61,
    arch: 'sm_89',
    runs: [
      { compiler: 'nvcc', version: '13.0.88', target: 'sm_89', seconds: 1.1 },
      { compiler: 'g++', version: '12.2.0', target: 'emulator', seconds: 1.42, cacheHit: true },
    ],
    entries: [
      {
        entry: 'fa_v2_wmma',
        arch: 'sm_89',
        registersPerThread: 40,
        staticSmemBytes: 24_576,
        threadsPerCta: 128,
        ctasPerSm: 4,
        occupancyPercent: 33.333,
        occupancyLimiter: 'shared memory',
      },
    ],
    diagnostics: [
      {
        severity: 'warning',
        file: 'fa_v2_wmma.cu',
        line: 31,
        column: 7,
        message: 'variable "x" was declared but never referenced',
        tool: 'nvcc',
      },
    ],
  },
  verify: {
    passedCases: 1,
    reference: 'fp64 on the CPU',
    seconds: 3.2,
    seeds: ['0123456789abcdef'],
    tolerance: { profile: 'parity', absolute: 0.01, relative: 0.01 },
    cases: [
      {
        shape: parseShape('1x8x512x64'),
        verdict: Verdict.PASS,
        seeds: 5,
        maxAbsError: 4.88e-4,
        meanAbsError: 1.31e-5,
        elements: 1_310_720n,
        fp16MaxAbsError: 4.1e-4,
        deterministic: true,
      },
      {
        shape: parseShape('1x8x512x64c'),
        verdict: Verdict.FAIL,
        reason: '3 of 262144 elements outside the tolerance',
        seeds: 1,
        maxAbsError: 0.25,
        meanAbsError: 2e-5,
        mismatches: 3n,
        elements: 262_144n,
        worst: { batch: 0, head: 3, row: 17, column: 5, got: 0.5, want: 0.25 },
        deterministic: true,
      },
    ],
  },
  benchmarks: [
    {
      shape: parseShape('2x8x512x64'),
      mode: TimingMode.HOT,
      simulated: true,
      stopReason: StopReason.CONVERGED,
      valid: false,
      invalidReason: 'emulator times are not GPU times',
      sdpaMissing: 'no PyTorch on this host',
      outputCheck: 'after timing: same as verified',
      latency: {
        samples: 100,
        minUs: 79_900,
        p50Us: 81_420,
        p90Us: 84_000,
        p99Us: 91_300,
        maxUs: 92_000,
        meanUs: 81_950,
        stddevUs: 1_200,
        p50LowUs: 81_100,
        p50HighUs: 81_800,
      },
      histogram: { lowUs: 79_900, binWidthUs: 1_210, counts: [12, 40, 25, 10, 6, 3, 1, 1, 0, 2] },
      conditions: { notMeasured: 'no GPU' },
    },
  ],
  profile: { verdict: Verdict.NOT_MEASURED, reason: 'the emulator has no hardware counters' },
  gates,
  findings: [
    {
      kind: FindingKind.WRONG_RESULT,
      message: '3 of 262144 elements are outside the tolerance, all in head 3.',
      remedy: 'Look at the last tile of the causal mask.',
      shape: parseShape('1x8x512x64c'),
    },
  ],
};

export const failedExperiment = {
  job: create(JobSchema, {
    name: NAME,
    kind: JobKind.EXPERIMENT,
    state: JobState.ENDED,
    outcome: Outcome.WRONG_RESULT,
    summary: '1 of 2 cases failed',
    label: 'fa_v2_wmma USE_WMMA=1',
    kernelId: 'fa_v2_wmma',
    deviceId: 'emulator',
    createTime: TIME,
    startTime: TIME,
    endTime: TIME,
  }),
  result: create(JobResultSchema, {
    prechecks: [
      { check: 'inputs', verdict: Verdict.PASS, detail: 'fp16' },
      { check: 'shapes', verdict: Verdict.PASS, detail: 'S and D of all 2 shapes are divisible by 16' },
    ],
    variants: [variant],
    deviceSeconds: 12.3,
    provenance: {
      runnerVersion: '0.1.0',
      runnerBuildId: 'abcdef0123456789',
      device: emulator,
      hostName: 'laptop',
      sourceDigest: 'ab'.repeat(32),
      flagsDigest: 'cd'.repeat(32),
      conditions: { notMeasured: 'the emulator has no clocks, temperature or power' },
      time: TIME,
      tools: [
        { name: 'g++', version: '12.2.0' },
        { name: 'nvcc', version: '13.0.88' },
        { name: 'ncu', missing: 'no profile' },
      ],
      seeds: ['0123456789abcdef', 'fedcba9876543210'],
      protocol: 'flashcore-protocol 1',
    },
  }),
};
