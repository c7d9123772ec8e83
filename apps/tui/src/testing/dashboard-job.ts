/**
 * A constructed experiment with gates announced at its start, to test the dashboard at four moments of the job. Times
 * are fixed.
 */
import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  FindingKind,
  JobKind,
  JobState,
  Outcome,
  Phase,
  TimingMode,
  Verdict,
  type CaseResultSchema,
  type GateResultSchema,
  type JobEvent,
  type JobEventSchema,
  type LatencyStatisticsSchema,
} from '@flashcore/shared/contract';
import { EMULATOR, PARITY_SHAPES, SAMPLE_JOB, eventsOf } from './sample-job.ts';

type PayloadInit = NonNullable<MessageInitShape<typeof JobEventSchema>['payload']>;
type GateInit = MessageInitShape<typeof GateResultSchema>;

const VARIANT = 'USE_WMMA=1';

const gate = (gateId: string, title: string, more: GateInit): GateInit => ({
  gateId,
  title,
  verdict: Verdict.UNSPECIFIED,
  level: 'hard',
  ...more,
});
const REGISTERS = gate('registers', 'registers/thread', {
  phase: 'build',
  comparison: '<=',
  target: 64,
  unit: 'registers',
});
const SMEM = gate('shared_memory', 'SMEM/CTA', { phase: 'build', comparison: '<=', target: 49_152, unit: 'B' });
const SPILLS = gate('spills', 'spills', { phase: 'build', comparison: '==', target: 0, unit: 'B', level: 'warn' });
const CTAS = gate('ctas', 'CTAs/SM', { phase: 'build', comparison: '>=', target: 4, unit: 'CTAs', level: 'warn' });
const PARITY = gate('parity', 'parity', {
  phase: 'verify',
  metric: 'parity_cases_passed',
  comparison: '==',
  target: 1,
  unit: 'share',
});
const LATENCY = gate('latency', 'p50 cold 2x8x512x64', {
  phase: 'benchmark',
  comparison: '<',
  target: 25,
  unit: 'us',
});
const TENSOR = gate('tensor_cores', 'tensor pipe', { phase: 'profile', comparison: '>=', target: 40, unit: '%' });
const ALL = [REGISTERS, SMEM, SPILLS, CTAS, PARITY, LATENCY, TENSOR];

const decided = (of: GateInit, verdict: Verdict, value: number): PayloadInit => ({
  case: 'gateResult',
  value: { ...of, verdict, value },
});

const ERRORS = [9.8e-4, 1.4e-3, 1.1e-3, 1.8e-3, 1.2e-3, 1.8e-3, 1.7e-3];

function caseResult(index: number): PayloadInit {
  const maxAbsError = ERRORS[index] ?? 0;
  const value: MessageInitShape<typeof CaseResultSchema> = {
    shape: PARITY_SHAPES[index] ?? {},
    verdict: Verdict.PASS,
    seeds: 5,
    maxAbsError,
    meanAbsError: maxAbsError / 30,
    elements: 131_072n,
    worst: { batch: 0, head: 1, row: 299, column: 56, got: -2.5293, want: -2.5293 + maxAbsError },
    worstOfLimit: maxAbsError / 0.03,
    errorMap: { tileRows: 32 },
  };
  return { case: 'caseResult', value };
}

const verifying = (caseIndex: number, seedIndex: number): PayloadInit => ({
  case: 'verifyProgress',
  value: { caseIndex, caseCount: 7, seedIndex, seedCount: 5, shape: PARITY_SHAPES[caseIndex] ?? {} },
});

const BEGINNING: PayloadInit[] = [
  {
    case: 'created',
    value: {
      job: {
        name: SAMPLE_JOB,
        kind: JobKind.EXPERIMENT,
        state: JobState.QUEUED,
        label: `fa_v2_wmma ${VARIANT}`,
        kernelId: 'fa_v2_wmma',
        deviceId: 'emulator',
      },
    },
  },
  { case: 'started', value: { device: EMULATOR } },
  { case: 'gatePlan', value: { variant: VARIANT, plan: { name: 'merge', gates: ALL } } },
  { case: 'phaseStarted', value: { phase: Phase.BUILD, variant: VARIANT } },
  { case: 'logLine', value: { source: 'nvcc', text: 'nvcc -cubin -arch=sm_89 fa_v2_wmma.cu' } },
];

const BUILT: PayloadInit[] = [
  {
    case: 'buildResult',
    value: {
      buildId: 'b1',
      succeeded: true,
      seconds: 1.4,
      arch: 'sm_89',
      entries: [
        {
          entry: 'attention',
          arch: 'sm_89',
          registersPerThread: 61,
          staticSmemBytes: 24_576,
          threadsPerCta: 128,
          ctasPerSm: 3,
          occupancyPercent: 33.3,
          occupancyLimiter: 'shared memory',
        },
      ],
    },
  },
  decided(REGISTERS, Verdict.PASS, 61),
  decided(SMEM, Verdict.PASS, 24_576),
  decided(SPILLS, Verdict.PASS, 0),
  decided(CTAS, Verdict.FAIL, 3),
  { case: 'phaseStarted', value: { phase: Phase.VERIFY, variant: VARIANT, steps: 7 } },
];

const SOME_CASES: PayloadInit[] = [0, 1, 2, 3].flatMap((index) => [verifying(index, 0), caseResult(index)]);
const OTHER_CASES: PayloadInit[] = [4, 5, 6].flatMap((index) => [verifying(index, 0), caseResult(index)]);

const latency = (samples: number): MessageInitShape<typeof LatencyStatisticsSchema> => ({
  samples,
  minUs: 6_440,
  p50Us: 12_270,
  p90Us: 13_900,
  p99Us: 18_400,
  maxUs: 18_400,
  meanUs: 12_400,
  stddevUs: 1_900,
  p50LowUs: 12_040,
  p50HighUs: 12_500,
});

const MEASURING: PayloadInit[] = [
  decided(PARITY, Verdict.PASS, 1),
  { case: 'phaseStarted', value: { phase: Phase.BENCHMARK, variant: VARIANT, steps: 2 } },
  {
    case: 'benchmarkProgress',
    value: {
      shape: PARITY_SHAPES[4] ?? {},
      mode: TimingMode.HOT,
      subject: 'candidate',
      simulated: true,
      samplesUs: Array.from(
        { length: 39 },
        (_, index) => 11_000 + 3_000 * Math.sin(index) + (index % 7 === 0 ? 4_000 : 0),
      ),
      latency: latency(39),
      expectedSamples: 56,
      histogram: { lowUs: 6_400, binWidthUs: 750, counts: [1, 0, 2, 3, 5, 9, 14, 3, 0, 1, 0, 0, 1, 0, 0, 0] },
    },
  },
  {
    case: 'gateResult',
    value: {
      ...TENSOR,
      verdict: Verdict.NOT_MEASURED,
      detail: 'hardware counters need a GPU; run it on a host with one',
    },
  },
];

const RACE: PayloadInit[] = [
  {
    case: 'finding',
    value: {
      kind: FindingKind.RACE,
      message:
        'K_smem[0] is written by thread (32, 0, 0) and read by thread (0, 0, 0) of block (0, 0, 0) with no barrier between them',
      remedy: 'Put a __syncthreads() between the store and the load',
      location: { file: 'missing_syncthreads.cu', line: 10 },
      threads: [
        { thread: [32, 0, 0], block: [0, 0, 0], place: 'writes K_smem[0], missing_syncthreads.cu:10' },
        { thread: [0, 0, 0], block: [0, 0, 0], place: 'reads K_smem[0], missing_syncthreads.cu:12' },
      ],
      threadCount: 2,
      frame: {
        file: 'missing_syncthreads.cu',
        line: 10,
        column: 3,
        firstLine: 9,
        lines: [
          '  // Every thread loads one element of the tile.',
          '  K_smem[threadIdx.x] = K[row * 64 + threadIdx.x];',
          '  float score = 0.0f;',
        ],
      },
    },
  },
  {
    case: 'finished',
    value: { outcome: Outcome.WRONG_RESULT, summary: 'fa_v2_wmma: a race was found' },
  },
];

/** The job's events up to each moment. */
export const DASHBOARD_MOMENTS = {
  building: () => eventsOf(BEGINNING),
  verifying: () => eventsOf([...BEGINNING, ...BUILT, ...SOME_CASES, verifying(4, 2)]),
  benchmarking: () => eventsOf([...BEGINNING, ...BUILT, ...SOME_CASES, ...OTHER_CASES, ...MEASURING]),
  finding: () => eventsOf([...BEGINNING, ...BUILT, ...SOME_CASES, ...RACE]),
} as const satisfies Record<string, () => JobEvent[]>;
