/** A runner in memory that replays constructed jobs, for tests of views, keys and the session. */
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  AcceptResponseSchema,
  ChampionSchema,
  DecisionKind,
  DecisionSchema,
  FindingKind,
  JobKind,
  JobState,
  Outcome,
  CancelJobResponseSchema,
  FlashcoreError,
  GetHostResponseSchema,
  ToleranceSchema,
  GetLeaderboardResponseSchema,
  JobSchema,
  LeaderboardPlaceSchema,
  ListChampionsResponseSchema,
  ListExperimentsResponseSchema,
  ListJobsResponseSchema,
  ListKernelsResponseSchema,
  RejectResponseSchema,
  TimingMode,
  UndoResponseSchema,
  type Champion,
  type Decision,
  type GetLeaderboardResponse,
  type Job,
  type JobEvent,
} from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import type { RunnerPort } from '../session/runner-port.ts';
import { EMULATOR, SAMPLE_JOB, SAMPLE_START_MS, sampleEvents } from './sample-job.ts';

export interface FakeRunnerOptions {
  readonly events?: JobEvent[];
  /** Pause between events in milliseconds; 0 for no pause. */
  readonly eventEveryMs?: number;
}

export interface FakeRunner extends RunnerPort {
  readonly cancelled: string[];
  /** Kernels for which runExperiment was called. */
  readonly started: string[];
  /** The requests of these calls. */
  readonly requests: unknown[];
  /** Decisions made so far. */
  readonly decided: { readonly kind: DecisionKind; readonly job: string; readonly note: string }[];
  champions: Champion[];
  /** Files that readArtifact() returns, by digest. */
  readonly artifacts: Map<string, Buffer>;
  /** The response of getLeaderboard. */
  leaderboard: GetLeaderboardResponse;
}

/** The place of the sample leaderboard. */
export const LEADERBOARD_PLACE = create(LeaderboardPlaceSchema, {
  deviceName: EMULATOR.name,
  shape: parseShape('2x8x512x64'),
  mode: TimingMode.HOT,
});

const KERNELS = [
  {
    kernelId: 'fa_v1_baseline',
    title: 'Scalar attention on shared-memory tiles',
    lesson: 'tiles make every K and V element serve 32 query rows; the FMA units then wait for shared memory',
    minArch: 'sm_80',
    emulated: true,
    limits: [{ require: 'D == 64', because: 'tiles are laid out for head dimension 64' }],
  },
  {
    kernelId: 'fa_v2_wmma',
    title: 'WMMA for both products',
    lesson: 'tensor cores do 16x16x16 in one instruction',
    after: 'fa_v1_baseline',
    minArch: 'sm_80',
    emulated: true,
    parameters: [{ name: 'USE_WMMA', values: [1n, 0n], defaultValue: 1n, about: 'tensor cores; 0: the scalar loop' }],
  },
  {
    kernelId: 'flashcore_v5',
    title: 'Best scalar kernel, 64 x 64 tiles',
    lesson: 'each warp owns a stripe of 16 rows',
    minArch: 'sm_80',
    emulated: true,
  },
  {
    kernelId: 'flashcore_v6',
    title: 'WMMA for QK^T, scalar softmax and PV',
    lesson: 'the first product moves to tensor cores',
    after: 'flashcore_v5',
    minArch: 'sm_80',
    emulated: true,
    limits: [{ require: 'D == 64', because: 'tiles are laid out for head dimension 64' }],
    parameters: [
      { name: 'USE_WMMA', values: [1n, 0n], defaultValue: 1n, about: 'tensor cores for QK^T; 0: the scalar loop' },
      { name: 'BLOCK_Q', values: [64n], defaultValue: 64n, about: 'query rows a CTA' },
    ],
    configs: ['64x64'],
    notes: 'Rows padded to 72: 3 % faster than 64 with an XOR swizzle on an L4.',
  },
  { kernelId: 'broken', manifestError: 'launches[0].grid: must be three expressions, got two' },
];
const FAULTY = {
  kernelId: 'divergent_barrier',
  title: 'A barrier that half the threads never reach',
  minArch: 'sm_80',
  emulated: true,
  expectedFinding: FindingKind.DEADLOCK,
};

export function fakeRunner({ events = sampleEvents(), eventEveryMs = 0 }: FakeRunnerOptions = {}): FakeRunner {
  const artifacts: FakeRunner['artifacts'] = new Map();
  const cancelled: string[] = [];
  const started: string[] = [];
  const requests: unknown[] = [];
  const decided: FakeRunner['decided'] = [];
  const jobs = sampleJobs();
  async function* replay(after: number, signal?: AbortSignal): AsyncGenerator<JobEvent, void, undefined> {
    for (const event of events) {
      if (Number(event.sequence) <= after) continue;
      signal?.throwIfAborted();
      // eslint-disable-next-line flashcore/no-fixed-wait -- events at a rate
      if (eventEveryMs > 0) await new Promise((resolve) => setTimeout(resolve, eventEveryMs));
      yield event;
    }
  }
  return {
    cancelled,
    started,
    requests,
    decided,
    champions: [],
    leaderboard: create(GetLeaderboardResponseSchema, {
      emptyReason: 'Emulator times are not GPU times: the emulator has no leaderboard',
      place: LEADERBOARD_PLACE,
      places: [LEADERBOARD_PLACE, { ...LEADERBOARD_PLACE, mode: TimingMode.COLD }],
    }),
    getHost: () =>
      Promise.resolve(
        create(GetHostResponseSchema, { host: HOST, plans: PLANS, caseSets: CASE_SETS, tolerances: TOLERANCES }),
      ),
    listJobs: () => Promise.resolve(create(ListJobsResponseSchema, { jobs })),
    listKernels: (request) =>
      Promise.resolve(
        create(ListKernelsResponseSchema, { kernels: request?.includeFaulty ? [...KERNELS, FAULTY] : KERNELS }),
      ),
    listExperiments: () =>
      Promise.resolve(
        create(ListExperimentsResponseSchema, {
          experiments: jobs
            .filter(({ state, kind }) => state === JobState.ENDED && kind === JobKind.EXPERIMENT)
            .map((job) => ({ job, ...EXPERIMENT })),
        }),
      ),
    getLeaderboard(request) {
      const mode = request?.mode || TimingMode.HOT;
      return Promise.resolve({ ...this.leaderboard, place: { ...LEADERBOARD_PLACE, mode } });
    },
    listChampions() {
      return Promise.resolve(
        create(ListChampionsResponseSchema, {
          champions: this.champions,
          decisions: decided
            .map(({ kind, job, note }, index) => decisionOf(kind, { job, note, number: index + 1 }))
            .toReversed(),
        }),
      );
    },
    accept({ job = '', note = '' }) {
      decided.push({ kind: DecisionKind.ACCEPTED, job, note });
      const champion = create(ChampionSchema, {
        label: 'flashcore_v11 SMS=132',
        kernelId: 'flashcore_v11',
        deviceName: 'NVIDIA H200',
        job,
      });
      const [replaced] = this.champions;
      this.champions = [champion];
      return Promise.resolve(create(AcceptResponseSchema, { champion, ...(replaced && { replaced }) }));
    },
    reject({ job = '', note = '' }) {
      decided.push({ kind: DecisionKind.REJECTED, job, note });
      const decision = decisionOf(DecisionKind.REJECTED, { job, note, number: decided.length });
      return Promise.resolve(create(RejectResponseSchema, { decision }));
    },
    undo({ job = '', note = '' }) {
      decided.push({ kind: DecisionKind.UNDONE, job, note });
      const decision = decisionOf(DecisionKind.UNDONE, { job, note, number: decided.length });
      this.champions = [];
      return Promise.resolve(create(UndoResponseSchema, { decision }));
    },
    cancelJob: ({ name = '' }) => {
      cancelled.push(name);
      return Promise.resolve(create(CancelJobResponseSchema, { job: jobs.find((job) => job.name === name) ?? {} }));
    },
    start: (_method, request, options) => {
      const kernel = (request as { kernel?: { source?: { value?: unknown } } }).kernel?.source?.value;
      started.push(String(kernel));
      requests.push(request);
      return replay(0, options?.signal);
    },
    uploadFolder: () =>
      Promise.reject(new FlashcoreError('INVALID_MANIFEST', {}, 'Wanted a kernel folder with a kernel.yaml')),
    artifacts,
    readArtifact: async (sha256) => {
      const bytes = artifacts.get(sha256);
      if (bytes !== undefined) return Promise.resolve(bytes);
      throw new FlashcoreError(
        'ARTIFACT_NOT_FOUND',
        { sha256 },
        `Wanted an artifact that this runner has, found none with the digest ${sha256}`,
      );
    },
    watch: (job, options) => {
      if (job !== SAMPLE_JOB)
        throw new FlashcoreError(
          'JOB_NOT_FOUND',
          { job },
          `Wanted a job that this runner knows, found none named ${job}`,
        );
      return replay(Number(options?.afterSequence ?? 0), options?.signal);
    },
  };
}

interface MadeDecision {
  readonly job: string;
  readonly note: string;
  readonly number: number;
}

/** Makes a decision. An undo takes back the decision before it. */
const decisionOf = (kind: DecisionKind, { job, note, number }: MadeDecision): Decision =>
  create(DecisionSchema, {
    kind,
    job,
    note,
    number: BigInt(number),
    label: 'flashcore_v11 SMS=132',
    client: 'local',
    time: timestampFromMs(SAMPLE_START_MS),
    undoes: kind === DecisionKind.UNDONE ? BigInt(number - 1) : 0n,
  });

const EXPERIMENT = {
  deviceName: EMULATOR.name,
  simulated: true,
  passedCases: 7,
  cases: 7,
  maxAbsError: 4.9e-4,
  p50Us: 74_400,
  hardGates: 4,
  hardGatesPassed: 2,
  gatesPassed: 7,
  gatesFailed: 2,
  gatesNotMeasured: 7,
  sourceDigest: '1f2e3d4c5b6a79880',
  registersPerThread: 56,
  timings: [
    { shape: parseShape('2x8x512x64'), mode: TimingMode.COLD, p50Us: 81_250 },
    { shape: parseShape('2x8x512x64'), mode: TimingMode.HOT, p50Us: 74_400 },
  ],
};

const PLANS = [
  {
    name: 'merge',
    title: 'May be merged',
    about: 'compiles without spills, parity, not slower than the champion, documented',
    default: true,
    acceptable: true,
    cases: 'parity',
    shapes: 'canonical',
    modes: [TimingMode.COLD, TimingMode.HOT],
    metricSet: 'gates',
    champion: true,
    fallback: 'beside',
    gates: [
      { gateId: 'spills', level: 'hard' },
      { gateId: 'correctness', level: 'hard' },
      { gateId: 'registers', level: 'warn' },
    ],
  },
  {
    name: 'explore',
    title: 'Is it right',
    about: 'correctness only; the rest is shown',
    cases: 'parity',
    shapes: 'canonical',
    modes: [TimingMode.HOT],
    metricSet: 'none',
    fallback: 'none',
    gates: [{ gateId: 'correctness', level: 'hard' }],
  },
];
const TOLERANCES = [
  create(ToleranceSchema, { profile: 'parity', absolute: 0.01, relative: 0.01 }),
  create(ToleranceSchema, { profile: 'strict', absolute: 0.001, relative: 0.001 }),
];
const CASE_SETS = [
  {
    name: 'parity',
    shapes: ['1x4x128x64', '1x4x128x64c'].map(parseShape),
  },
  { name: 'canonical', shapes: [parseShape('2x8x512x64')] },
];

const HOST = {
  runnerVersion: '0.1.0',
  apiVersion: 'v1',
  buildId: 'abc',
  hostName: 'laptop',
  platform: 'linux x86-64',
  startTime: timestampFromMs(SAMPLE_START_MS - 600_000),
  devices: [EMULATOR],
  embedded: true,
  activeJobs: 1,
  processId: 4711,
  dataDirectory: '~/.flashcore',
  tools: [
    { name: 'g++', version: '12.2.0' },
    { name: 'nvcc', version: '13.0', archs: ['sm_80', 'sm_89', 'sm_90'] },
    { name: 'ncu', missing: 'hardware counters; comes with the CUDA toolkit' },
    { name: 'bwrap', version: '0.8.0' },
  ],
  isolation: { kind: 'bubblewrap', detail: 'compilers and workers see the kernel folder read-only and no network' },
};

function sampleJobs(): Job[] {
  const ended = (seconds: number, length: number) => ({
    state: JobState.ENDED,
    createTime: timestampFromMs(SAMPLE_START_MS - seconds * 1000),
    startTime: timestampFromMs(SAMPLE_START_MS - seconds * 1000),
    endTime: timestampFromMs(SAMPLE_START_MS - (seconds - length) * 1000),
  });
  return [
    create(JobSchema, {
      name: 'jobs/77777777-0000-4000-8000-000000000002',
      kind: JobKind.VERIFY,
      state: JobState.QUEUED,
      label: 'flashcore_v7 BLOCK_Q=64 BLOCK_KV=96',
      kernelId: 'flashcore_v7',
      queuePosition: 1,
      createTime: timestampFromMs(SAMPLE_START_MS),
    }),
    create(JobSchema, {
      name: SAMPLE_JOB,
      kind: JobKind.EXPERIMENT,
      state: JobState.RUNNING,
      label: 'flashcore_v6 USE_WMMA=1',
      kernelId: 'flashcore_v6',
      createTime: timestampFromMs(SAMPLE_START_MS),
      startTime: timestampFromMs(SAMPLE_START_MS),
    }),
    create(JobSchema, {
      ...ended(300, 12),
      name: 'jobs/11111111-0000-4000-8000-000000000003',
      kind: JobKind.EXPERIMENT,
      outcome: Outcome.PASSED,
      label: 'fa_v2_wmma USE_WMMA=1',
      kernelId: 'fa_v2_wmma',
      summary: 'all 7 cases pass; every hard gate passes or was not measured',
    }),
    create(JobSchema, {
      ...ended(4000, 2),
      name: 'jobs/22222222-0000-4000-8000-000000000004',
      kind: JobKind.BUILD,
      outcome: Outcome.COMPILE_FAILED,
      label: 'syntax_error',
      kernelId: 'syntax_error',
      summary: 'syntax_error.cu:12:3: expected a ";"',
    }),
    create(JobSchema, {
      ...ended(90_000, 31),
      name: 'jobs/33333333-0000-4000-8000-000000000005',
      kind: JobKind.EXPERIMENT,
      outcome: Outcome.INTERRUPTED,
      label: 'endless_loop',
      kernelId: 'endless_loop',
      summary: 'the runner ended while the job was running',
    }),
  ];
}
