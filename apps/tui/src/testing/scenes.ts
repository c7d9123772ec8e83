/**
 * Scenes for goldens of screens: the jobs that the client knows, the job that is shown, and the keys that were pressed.
 */
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  ArtifactKind,
  DecisionKind,
  InstructionListingFileSchema,
  GetLeaderboardResponseSchema,
  ListChampionsResponseSchema,
  ListKernelsResponseSchema,
  JobState,
  Outcome,
  TimingMode,
  type JobEvent,
  type ProfileResult,
} from '@flashcore/shared/contract';
import { labLog } from '../handover/lab-log.ts';
import type { Block } from '../present/blocks.ts';
import { readListing } from '../session/session.ts';
import { samplesOf } from '../state/pinned.ts';
import { shownVariant } from '../state/selectors.ts';
import { comparisonEvents } from './comparison-job.ts';
import { DASHBOARD_MOMENTS } from './dashboard-job.ts';
import { LISTED_PROBLEMS, decodeEvents } from './decode-job.ts';
import { LEADERBOARD_PLACE, fakeRunner } from './fake-runner.ts';
import {
  decidedEvents,
  decidedJob,
  measuredArtifact,
  measuredEvents,
  measuredJob,
  measuredListing,
  modelledEvents,
  type MeasuredName,
} from './measured-job.ts';
import { SAMPLE_START_MS, sampleEvents } from './sample-job.ts';
import type { TestTerminal } from './terminal.tsx';
import { TUNE_MOMENTS } from './tune-job.ts';

export interface Scene {
  /** Keys to press once the jobs are loaded. */
  readonly keys: string;
  /** The events of the job on the screen; absent if there is no job. */
  readonly events?: () => JobEvent[];
  /** Gives the client further data. */
  readonly stage?: (terminal: TestTerminal) => void;
  /** True if the runner has not answered yet. */
  readonly unconnected?: boolean;
}

/** One scene for each view and its variants, with goldens in every size and mode. */
export const VIEW_SCENES: Record<string, Scene> = {
  run: { keys: '1', events: sampleEvents },
  'run-benchmarking': { keys: '1', events: DASHBOARD_MOMENTS.benchmarking },
  'run-finding': { keys: '1', events: DASHBOARD_MOMENTS.finding },
  rail: { keys: '1\t', events: sampleEvents },
  correct: { keys: '2', events: sampleEvents },
  'correct-map': { keys: '2\rkh', events: sampleEvents },
  'correct-axes': { keys: '2jj', events: decodeEvents },
  'latency-axes': { keys: '3', events: decodeEvents },
  latency: { keys: '3', events: () => measuredEvents('flashcore_v10') },
  'latency-comparison': { keys: '3', events: comparisonEvents },
  'tune-race': { keys: '3jjj', events: TUNE_MOMENTS.racing },
  compare: { keys: '3', events: () => measuredEvents('flashcore_v10'), stage: (terminal) => compareWithV9(terminal) },
  'compare-figures': {
    keys: '3d',
    events: () => measuredEvents('flashcore_v10'),
    stage: (terminal) => compareWithV9(terminal),
  },
  'compare-source': {
    keys: '3dd',
    events: () => measuredEvents('flashcore_v10'),
    stage: (terminal) => compareWithV9(terminal, { sources: true }),
  },
  profile: { keys: '4', events: () => measuredEvents('flashcore_v10') },
  'profile-hottest': { keys: '4sH', events: () => modelledEvents('bank_conflict_32way') },
  'profile-modelled': { keys: '4', events: () => modelledEvents('bank_conflict_32way') },
  'profile-ptx': {
    keys: '4i',
    events: () => modelledEvents('bank_conflict_32way'),
    stage: (terminal) => stageListings(terminal, ['PTX']),
  },
  'profile-sass': {
    keys: '4ijjJ',
    events: () => withoutCounts(modelledEvents('bank_conflict_32way')),
    stage: (terminal) => stageListings(terminal, ['SASS', 'PTX']),
  },
  decision: { keys: 'a', events: () => decidedEvents('faster') },
  'gates-to-accept': { keys: '5', events: () => decidedEvents('faster') },
  gates: { keys: '5', events: () => measuredEvents('flashcore_v10') },
  jobs: { keys: '6', events: sampleEvents },
  history: { keys: '6t', events: sampleEvents },
  'jobs-changed': { keys: '6', events: withCodeDigest, stage: stageChangedSource },
  leaderboard: { keys: '6tt', events: sampleEvents, stage: stageLeaderboard },
  kernels: { keys: '7jjj', events: sampleEvents },
  problems: { keys: '7tj', events: sampleEvents, stage: stageProblems },
  'problem-definition': { keys: '7tj\r', events: sampleEvents, stage: stageProblems },
  host: { keys: '8', events: sampleEvents },
  'form-plan': { keys: '7jjj\rj', events: sampleEvents },
  form: { keys: '7jjj\rjjjj1x1x64x32', events: sampleEvents },
  help: { keys: '?', events: sampleEvents },
  'lab-log': {
    keys: 'Ljj',
    events: sampleEvents,
    stage: ({ onLabLog }) => onLabLog(() => Promise.resolve(measuredLabLog())),
  },
  'command-log': { keys: '@k', events: sampleEvents, stage: stageCommands },
};

/** Scenes of states such as loading, empty, or lost, with goldens without color. */
export const STATE_SCENES: Record<string, Scene> = {
  'run-building': { keys: '1', events: DASHBOARD_MOMENTS.building },
  'run-verifying': { keys: '1', events: DASHBOARD_MOMENTS.verifying },
  'run-tuning': { keys: '1', events: TUNE_MOMENTS.racing },
  'tune-ended': { keys: '3', events: TUNE_MOMENTS.ended },
  running: { keys: '2', events: () => sampleEvents().slice(0, 21) },
  'being-read': { keys: '1', events: () => sampleEvents().slice(0, 21), stage: stageListedEnd },
  'no-job': { keys: '3' },
  unconnected: { keys: '7', unconnected: true },
  'unconnected-run': { keys: '1', unconnected: true },
  reconnecting: {
    keys: '1',
    events: sampleEvents,
    stage: ({ store }) => store.dispatch({ type: 'connection', connection: 'reconnecting' }),
  },
  'wrong-result': { keys: '1', events: () => measuredEvents('nan_output') },
  'latency-simulated': { keys: '3', events: sampleEvents },
  'profile-emulator': { keys: '4', events: sampleEvents },
  'no-sass': {
    keys: '4i',
    events: () => withoutCounts(modelledEvents('bank_conflict_32way')),
    stage: stageMissingListing,
  },
  'nothing-to-time': { keys: '3', events: () => measuredEvents('nan_output') },
};

export async function enterScene(
  terminal: TestTerminal,
  { keys, events, stage, unconnected = false }: Scene,
): Promise<void> {
  const { store } = terminal;
  if (!unconnected) {
    const runner = fakeRunner();
    store.dispatch({ type: 'connection', connection: 'connected' });
    const { host, plans, caseSets, tolerances } = await runner.getHost();
    if (host !== undefined) store.dispatch({ type: 'host', host, plans, caseSets, tolerances });
    store.dispatch({ type: 'jobs', jobs: (await runner.listJobs()).jobs });
    store.dispatch({ type: 'kernels', kernels: (await runner.listKernels()).kernels });
    store.dispatch({ type: 'experiments', experiments: (await runner.listExperiments()).experiments });
  }
  const all = events?.() ?? [];
  if (all[0] !== undefined) store.dispatch({ type: 'attach', job: all[0].job });
  for (const event of all) store.dispatch({ type: 'job-event', event });
  stage?.(terminal);
  // The scene is already in a comparison in view 3 here. The keys come last, because the data of the comparison must be
  // added first.
  await terminal.press(keys);
}

/** Puts the shown job into the list as ended, while its events are still arriving. */
function stageListedEnd({ store }: TestTerminal): void {
  const summary = 'all 7 cases pass';
  const jobs = store.state.jobs.map((job) =>
    job.name === store.state.attached ? { ...job, state: JobState.ENDED, outcome: Outcome.PASSED, summary } : job,
  );
  store.dispatch({ type: 'jobs', jobs });
}

function withCodeDigest(): JobEvent[] {
  const events = sampleEvents();
  for (const { payload } of events)
    if (payload.case === 'created' && payload.value.job) payload.value.job.codeDigest = 'before';
  return events;
}

/** Changes the source of the shown job's kernel after the job has run. The job was accepted with a note. */
function stageChangedSource({ store, runner }: TestTerminal): void {
  const { jobs, kernels, attached } = store.state;
  store.dispatch({
    type: 'jobs',
    jobs: jobs.map((job) => (job.name === attached ? { ...job, codeDigest: 'before' } : job)),
  });
  const edited = kernels.map((kernel) => ({ ...kernel, codeDigest: kernel.kernelId === 'flashcore_v6' ? 'now' : '' }));
  Object.assign(runner, {
    listKernels: () => Promise.resolve(create(ListKernelsResponseSchema, { kernels: edited })),
  });
  stageNote(store, attached ?? '', 'rows padded to 72');
}

function stageNote(store: TestTerminal['store'], job: string, note: string): void {
  const decisions = [{ number: 1n, kind: DecisionKind.ACCEPTED, client: 'ada', job, note }];
  store.dispatch({ type: 'champions', champions: create(ListChampionsResponseSchema, { decisions }) });
}

function stageProblems({ store }: TestTerminal): void {
  store.dispatch({ type: 'problems', problems: LISTED_PROBLEMS });
}

/** A night with a champion, a build that changes nothing, and one that is slower. */
const measuredLabLog = (): readonly Block[] =>
  labLog({ jobs: ['faster', 'itself', 'slower'].map(decidedJob), decisions: [], remarks: [] }).blocks;

function stageCommands({ store }: TestTerminal): void {
  const run = 'fa-tui run ./my_attn --set BLOCK_Q=64 --shape 1x4x128x64 --seeds 1 --samples 10 --max-registers 128';
  for (const text of [run, 'fa-tui cancel 77777777', "fa-tui accept 11111111 --note 'wider tiles'"])
    store.dispatch({ type: 'command', text });
}

function stageSamples({ store }: TestTerminal, name: MeasuredName): void {
  for (const { samples } of measuredJob(name).result?.variants[0]?.benchmarks ?? []) {
    const bytes = samples && measuredArtifact(samples.sha256);
    if (samples !== undefined && bytes !== undefined)
      store.dispatch({ type: 'samples', sha256: samples.sha256, samples: samplesOf(bytes) });
  }
}

/** Adds listings to the shown job: its PTX, and its machine code as nvdisasm 13.0 prints it for sm_90. */
function stageListings({ store, runner }: TestTerminal, languages: readonly ('PTX' | 'SASS')[]): void {
  for (const language of languages) {
    const sha256 = language.toLowerCase();
    const bytes = measuredListing(`bank_conflict_32way.${sha256}`);
    runner.artifacts.set(sha256, bytes);
    const file = { sha256, kind: ArtifactKind.INSTRUCTIONS, sizeBytes: BigInt(bytes.length) };
    shownProfile(store).listings.push(create(InstructionListingFileSchema, { language, file }));
    store.dispatch({ type: 'listing', sha256, listing: readListing(bytes) });
  }
}

function stageMissingListing({ store }: TestTerminal): void {
  const missing = 'nvdisasm was not found: it comes with the CUDA toolkit';
  shownProfile(store).listings.push(create(InstructionListingFileSchema, { language: 'SASS', missing }));
}

function shownProfile(store: TestTerminal['store']): ProfileResult {
  const profile = shownVariant(store.state)?.profile;
  if (profile === undefined) throw new Error('must be a job with a profile');
  return profile;
}

/** Removes the counts of lines from the profile, because ncu can also report a profile without them. */
function withoutCounts(events: JobEvent[]): JobEvent[] {
  for (const { payload } of events) if (payload.case === 'profileResult') payload.value.lines = [];
  return events;
}

const SOURCE_A =
  '__global__ void attention(const half* Q, const half* K) {\n  __shared__ half K_smem[64 * 72];\n  for (int tile = 0; tile < tiles; ++tile) {\n    load(K, K_smem, tile);\n    __syncthreads();\n    multiply(Q, K_smem);\n  }\n}\n';
const SOURCE_B =
  '__global__ void attention(const half* Q, const half* K) {\n  extern __shared__ half K_smem[];\n  prefetch(K, K_smem, 0);\n  for (int tile = 0; tile < tiles; ++tile) {\n    prefetch(K, K_smem, tile + 1);\n    cp_async_wait<1>();\n    __syncthreads();\n    multiply(Q, K_smem);\n  }\n}\n';

/**
 * Compares the shown job with flashcore_v9. The measured jobs are older than the feature that stores sources, so
 * example sources are added.
 */
function compareWithV9(terminal: TestTerminal, { sources = false } = {}): void {
  const { store } = terminal;
  const pinned = measuredEvents('flashcore_v9');
  for (const event of pinned) store.dispatch({ type: 'job-event', event });
  store.dispatch({ type: 'pin', job: pinned[0]?.job ?? '' });
  for (const name of ['flashcore_v9', 'flashcore_v10'] as const) stageSamples(terminal, name);
  if (sources) {
    for (const { name, text, digest } of [
      { name: 'flashcore_v9.cu', text: SOURCE_A, digest: 'a' },
      { name: 'flashcore_v10.cu', text: SOURCE_B, digest: 'b' },
    ]) {
      const view = Object.values(store.state.views).find(({ kernelId }) => name.startsWith(`${kernelId}.`));
      view?.variants[0]?.build?.artifacts.push({
        $typeName: 'flashcore.runner.v1.Artifact',
        sha256: digest,
        kind: ArtifactKind.SOURCE,
        fileName: name,
        sizeBytes: BigInt(text.length),
        entries: [],
      });
      store.dispatch({ type: 'source', sha256: digest, text });
    }
  }
  stageNote(store, pinned[0]?.job ?? '', 'two stages hide the loads');
  store.dispatch({ type: 'compare', on: true });
}

function stageLeaderboard({ store, runner }: TestTerminal): void {
  const entry = (label: string, p50Us: number, speedup: number | undefined, minutes: number) => ({
    label,
    kernelId: label.split(' ')[0] ?? '',
    latency: { samples: 107, p50Us, p50LowUs: p50Us * 0.999, p50HighUs: p50Us * 1.001, p90Us: p50Us * 1.01 },
    job: `jobs/${label.length}4444444-0000-4000-8000-000000000007`,
    time: timestampFromMs(SAMPLE_START_MS - minutes * 60_000),
    ...(speedup !== undefined && { speedup, sdpaInTurns: true }),
    tflops: 1073.7 / p50Us,
    registers: 168,
    speedupOverBaseline: 106.51 / p50Us,
    owner: 'ada',
    lineage: [label.split(' ')[0] ?? '', 'flashcore_v9', 'flashcore_v8'],
    sourceDigest: '1f2e3d4c5b6a7988',
    champion: p50Us < 6,
  });
  const leaderboard = create(GetLeaderboardResponseSchema, {
    place: LEADERBOARD_PLACE,
    entries: [
      entry('flashcore_v11 SMS=132', 5.76, 1.558, 4),
      entry('flashcore_v10 SMS=132', 6.96, 1.29, 9),
      entry('fa_tc_s512 CONFIG=1 REGISTER_LIMIT=0', 7.21, 1.244, 14),
      {
        label: 'sdpa/cudnn',
        sdpaVersion: 'PyTorch 2.11.0, cuDNN 9.19.0',
        latency: { samples: 400, p50Us: 8.973, p50LowUs: 8.965, p50HighUs: 8.98, p90Us: 9.02 },
        tflops: 119.7,
        job: 'jobs/55555555-0000-4000-8000-000000000007',
      },
      entry('flashcore_v9 BLOCK_Q=64 STAGES=2', 14.68, 0.611, 21),
      entry('fa_v1_baseline', 106.51, undefined, 60),
    ],
    places: [LEADERBOARD_PLACE, { ...LEADERBOARD_PLACE, mode: TimingMode.COLD }],
    baselineKernel: 'fa_v1_baseline',
  });
  store.dispatch({ type: 'leaderboard', leaderboard });
  runner.leaderboard = leaderboard;
}
