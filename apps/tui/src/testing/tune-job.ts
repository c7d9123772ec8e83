/** A search over variants, in the middle of its race and at its end, with times of flashcore_v8 on the H200. */
import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  JobKind,
  JobState,
  Outcome,
  TimingMode,
  Verdict,
  type JobEvent,
  type JobEventSchema,
  type TunedVariantSchema,
} from '@flashcore/shared/contract';
import { SAMPLE_JOB, eventsOf } from './sample-job.ts';

type PayloadInit = NonNullable<MessageInitShape<typeof JobEventSchema>['payload']>;
type VariantInit = Exclude<MessageInitShape<typeof TunedVariantSchema>, { $typeName: string }>;

const built = (registers: number, smemBytes: number, ctasPerSm: number): VariantInit => ({
  buildId: `build of ${registers} and ${smemBytes}`,
  registers,
  smemBytes,
  ctasPerSm,
  verified: Verdict.PASS,
});
const timed = (p50Us: number, ratio?: number): VariantInit => ({
  p50Us,
  p50LowUs: p50Us * 0.9995,
  p50HighUs: p50Us * 1.0005,
  samples: 30,
  mode: TimingMode.HOT,
  ...(ratio !== undefined && { ratio: { ratio, low: ratio * 0.9995, high: ratio * 1.0005 } }),
});

const LEADER: VariantInit = { label: 'BLOCK_Q=64 BLOCK_KV=64', ...built(128, 64_512, 3), ...timed(21.25) };
const SLOWER: VariantInit = {
  label: 'BLOCK_Q=64 BLOCK_KV=96',
  ...built(197, 81_920, 2),
  ...timed(23.16, 0.917),
  dropped: 'slower than the leader of round 1: 0.917 x [0.917, 0.918] as fast',
};
const WAITS: VariantInit = { label: 'BLOCK_Q=96 BLOCK_KV=64', ...built(137, 87_552, 2) };
const WRONG: VariantInit = {
  label: 'BLOCK_Q=96 BLOCK_KV=32',
  ...built(110, 61_440, 3),
  verified: Verdict.FAIL,
  dropped: 'wrong on 2x8x512x64: WRONG_RESULT: 9681 of 1048576 elements are outside the tolerance',
};
const SPILLED: VariantInit = {
  label: 'BLOCK_Q=128 BLOCK_KV=64',
  ...built(255, 98_304, 1),
  verified: Verdict.NOT_MEASURED,
  dropped: '48 bytes of registers spilled',
};
const BUILDING: VariantInit = { label: 'BLOCK_Q=96 BLOCK_KV=96', verified: Verdict.NOT_MEASURED };

const ROWS = [LEADER, SLOWER, WAITS, WRONG, SPILLED, BUILDING];
const RANKED: VariantInit[] = [
  { ...LEADER, rank: 1 },
  SLOWER,
  {
    ...BUILDING,
    ...built(197, 109_056, 1),
    ...timed(24.22, 0.877),
    dropped: 'slower than the leader of round 1: 0.877 x [0.877, 0.878] as fast',
  },
  { ...WAITS, ...timed(30.54, 0.696), dropped: 'slower than the leader of round 1: 0.696 x [0.696, 0.696] as fast' },
  WRONG,
  SPILLED,
];

const H200 = { deviceId: 'gpu0', name: 'NVIDIA H200', arch: 'sm_90', multiprocessors: 132 };

const RACING: PayloadInit[] = [
  {
    case: 'created',
    value: {
      job: {
        name: SAMPLE_JOB,
        kind: JobKind.TUNE,
        state: JobState.QUEUED,
        label: 'flashcore_v8, 6 variants',
        kernelId: 'flashcore_v8',
        deviceId: 'gpu0',
      },
    },
  },
  { case: 'started', value: { device: H200 } },
  { case: 'logLine', value: { source: 'runner', text: '6 variants of 6 combinations' } },
  ...ROWS.map((value): PayloadInit => ({ case: 'tunedVariant', value })),
];

const ENDED: PayloadInit = {
  case: 'finished',
  value: {
    outcome: Outcome.PASSED,
    summary: 'best of 6 variants: BLOCK_Q=64 BLOCK_KV=64, 21.25 us',
    result: {
      tune: {
        variants: RANKED,
        pareto: ['BLOCK_Q=64 BLOCK_KV=64'],
        winner: 'BLOCK_Q=64 BLOCK_KV=64',
        rankedBy: 'median latency in interleaved comparisons with the leader',
        paretoOf: 'median latency and registers',
        combinations: 6,
        complete: true,
      },
    },
  },
};

export const TUNE_MOMENTS = {
  racing: (): JobEvent[] => eventsOf(RACING),
  ended: (): JobEvent[] => eventsOf([...RACING, ENDED]),
};
