/** Queries on the state that several views and commands share. */
import { checkedOf } from './variants.ts';
import {
  ComparisonVerdict,
  ExperimentSummarySchema,
  JobKind,
  JobState,
  Outcome,
  Phase,
  Verdict,
  parityCounts,
  type ExperimentSummary,
  type Job,
  type LeaderboardEntry,
  type ParityCounts,
} from '@flashcore/shared/contract';
import { create } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { FEWEST_SAMPLES } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { ListedProblem } from '../present/sections/problem.ts';
import { isToDo, notesNow, withDetailsNow, withNotes } from './decision.ts';
import type { ListedKernel } from './listed-kernel.ts';
import { endedSince } from './since-left.ts';
import { type AppState, type FilteredList, type HistorySort, type ViewId, type KernelSort } from './app-state.ts';
import { phaseShare, type BenchmarkView, type JobView, type PhaseView, type VariantView } from './job-view.ts';
import { raceOf, type TuneRace } from './tuned-variants.ts';
import { counted } from '../present/numbers.ts';
import { DEVICE_WAIT } from '../present/sections/phase-times.ts';
import { jobMark } from '../present/words.ts';

export const attachedJob = (state: AppState): JobView | undefined =>
  state.attached === undefined ? undefined : entryOf(state.views, state.attached);

/** The shown job, if it is still running. It continues after the program exits. */
function runningJob(state: AppState): string | undefined {
  const job = attachedJob(state);
  return job !== undefined && (job.state === JobState.QUEUED || job.state === JobState.RUNNING) ? job.name : undefined;
}

/** Names of the user's jobs that continue after the program exits, the shown one first. */
export function openOwnJobs(state: AppState): readonly string[] {
  const { jobs, caller } = state;
  const shown = runningJob(state);
  const own = jobs.filter(
    ({ state: of, owner }) => of !== JobState.ENDED && (owner === undefined || owner === caller?.name),
  );
  const others = own.map(({ name }) => name).filter((name) => name !== shown);
  return shown === undefined ? others : [shown, ...others];
}

/** The variants, the fallback last. */
export const variantsOf = (job: JobView | undefined): VariantView[] =>
  [...(job?.variants ?? [])].sort((a, b) => Number(a.fallback) - Number(b.fallback));

/** The running variant if it is the fallback of one that failed; undefined otherwise. */
export const runningFallback = (job: JobView): VariantView | undefined =>
  job.state === JobState.ENDED
    ? undefined
    : job.variants.find(({ label, fallback }) => fallback && label === currentPhase(job)?.variant);

/** The running fallback of a job whose verdict stands already, so that nobody has to wait for it. */
export const idleFallback = (job: JobView): VariantView | undefined =>
  job.plan?.fallback === 'continue' ? undefined : runningFallback(job);

/** Names the shown variant if the job has two, such as "USE_WMMA=0, the fallback"; otherwise empty. */
export function shownVariantText(state: AppState): string {
  const variant = shownVariant(state);
  if (variant === undefined || variantsOf(attachedJob(state)).length < 2) return '';
  return `${variant.label}${variant.fallback ? ', the fallback' : ''}`;
}

/** The variant whose findings are shown. */
export function shownVariant(state: AppState): VariantView | undefined {
  const job = attachedJob(state);
  const variants = variantsOf(job);
  const variant = variants[Math.min(state.ui.variant, variants.length - 1)];
  return job && variant && current(state, job, variant);
}

interface Current {
  /** The reasons that make it differ from the variant of the job. */
  readonly details: string;
  readonly variant: VariantView;
}

/** Variants with the gates as they are by now, by the variant of the job. */
const currentOf = new WeakMap<VariantView, Current>();

/**
 * The variant with its gates as they are by now. The same object for the same variant, because several panes keep what
 * they made of it.
 */
function current(state: AppState, job: JobView, variant: VariantView): VariantView {
  const notes = variant.gates.some(isToDo) ? notesNow(state, job) : undefined;
  const gates = withDetailsNow(state, job, notes === undefined ? variant.gates : withNotes(variant.gates, notes));
  if (gates === variant.gates) return variant;
  const details = gates.map(({ detail }) => detail).join('\n');
  const known = currentOf.get(variant);
  if (known?.details === details) return known.variant;
  const made = { details, variant: { ...variant, gates } };
  currentOf.set(variant, made);
  return made.variant;
}

/** Number of all cases: those that have ended, are running or are still to come. */
export const casesInAll = ({ cases, caseCount = 0 }: VariantView): number => Math.max(cases.length, caseCount);

/**
 * The number of cases and probes that have passed so far, and of all of them. Probes are known only after verification.
 */
export function parityOf(variant: VariantView): ParityCounts {
  const { probes = [], drawn = [] } = variant.verify ?? {};
  return { ...parityCounts({ cases: [...variant.cases], probes, drawn }), cases: casesInAll(variant) };
}

/** Index of the case shown in view 2: the first failed one, until the user moves the cursor. */
export function caseShown(state: AppState): number {
  const variant = shownVariant(state);
  const { correct } = state.ui.selected;
  if (correct > 0 || variant === undefined || state.ui.view === 'correct') return correct;
  return Math.max(
    0,
    checkedOf(variant).findIndex(({ verdict }) => verdict === Verdict.FAIL),
  );
}

/** True if view 4 shows the source with figures for each line. */
export const hasLines = (state: AppState): boolean =>
  state.ui.view === 'profile' && (shownVariant(state)?.profile?.lines.length ?? 0) > 0;

/** True if the emulator produced the device's times. */
export function isSimulated(state: AppState): boolean {
  const job = attachedJob(state);
  if (job?.device !== undefined) return job.device.simulated;
  return state.host?.devices[0]?.simulated ?? false;
}

export const currentPhase = (job: JobView | undefined): PhaseView | undefined => job?.phases.at(-1);

/** True if the job is taking samples. */
export const isTiming = (job: JobView | undefined): boolean =>
  job?.state === JobState.RUNNING && currentPhase(job)?.phase === Phase.BENCHMARK;

/** True from the start of a build to the end of the wait for the device that follows it. */
export const isBuilding = (job: JobView | undefined): boolean =>
  job?.state === JobState.RUNNING && currentPhase(job)?.phase === Phase.BUILD;

/** Processes per CPU from which a compilation takes several times as long. */
const BUSY_LOAD = 1.5;

/** Why a build takes long, such as "the host is busy: load 17 on 2 CPUs"; undefined if its host is not overloaded. */
export function busyHostText(state: AppState): string | undefined {
  const job = attachedJob(state);
  const { hostLoad = 0, hostCpus = 0 } = entryOf(state.readings, job?.device?.deviceId ?? '')?.at(-1) ?? {};
  return isBuilding(job) && hostLoad > BUSY_LOAD * hostCpus
    ? `the host is busy: load ${hostLoad.toFixed(0)} on ${counted(hostCpus, 'CPU')}`
    : undefined;
}

// Shorter waits are not shown; they are not in the runner's log either.
const TELL_WAIT_MS = 500;

/** The time at which a running job began to wait for its device after a build; undefined if it is not waiting. */
export function waitsSince({ state, phases }: JobView, now: number): number | undefined {
  const since = phases.at(-1)?.endTime;
  return state !== JobState.RUNNING || since === undefined || now - since < TELL_WAIT_MS ? undefined : since;
}

/** The runner repeats its line about compilations every 10 s, later if the machine is busy. */
const COMPILING_FOR_MS = 45_000;

/** Says why a job has waited since waitsSince(). The emulator is compiled on its first start on a machine. */
export function waitText({ compiling, device }: JobView, now: number): string {
  if (compiling === undefined || now - compiling.time > COMPILING_FOR_MS) return DEVICE_WAIT;
  const what = compilingText({ device });
  return compiling.done === '' ? what : `${what}, ${compiling.done}`;
}

/** The text between a wait and its time: "3 of 5 40 s" would look like one figure. */
export const timeGap = (wait: string): string => (/\d$/.test(wait) ? ', ' : ' ');

const compilingText = ({ device }: Pick<JobView, 'device'>): string =>
  device?.simulated === false ? 'compiling for the device' : 'compiling the emulator';

/** The word for a job's waits for its device after it has ended; the same as waitText() had for the longest one. */
export const waitedText = (job: JobView): string => (job.hasCompiled ? compilingText(job) : DEVICE_WAIT);

/** The finished share of the current phase; 1 once the job has ended. Undefined before the first phase. */
export function jobShare(job: JobView | undefined): number | undefined {
  if (job === undefined || job.phases.length === 0) return undefined;
  if (job.state === JobState.ENDED) return 1;
  const phase = currentPhase(job);
  return phase === undefined ? undefined : phaseShare(phase);
}

/** True if a text has every word of a filter. */
function matches(text: string, filter: string): boolean {
  const lower = text.toLowerCase();
  return filter
    .toLowerCase()
    .split(' ')
    .every((word) => lower.includes(word));
}

/** The filter word for every job that ended badly; no summary contains it. */
export const FAILURES_WORD = 'failures';

/** The state as the list shows it and in the contract's words, such as "race WRONG RESULT". */
function stateName(job: Job): string {
  const { state, outcome } = job;
  const { mark, word } = jobMark(job);
  const endedBadly = mark === '✗' || outcome === Outcome.INTERRUPTED;
  const name = state === JobState.ENDED ? (Outcome[outcome] ?? '') : (JobState[state] ?? '');
  return `${word} ${name.replaceAll('_', ' ')} ${endedBadly ? FAILURES_WORD : ''}`;
}

/** The summary that filters search; empty for a passed job, which names what did not fail: "fail" would match it. */
const searchedSummary = ({ outcome, summary }: Job): string => (outcome === Outcome.PASSED ? '' : summary);

/** The text that a filter looks at first: names and words, which a row shows. */
const jobText = (job: Job): string =>
  [
    ...[job.name, job.label, job.kernelId, stateName(job), JobKind[job.kind]],
    ...Object.entries(job.labels).map(([name, value]) => `${name}=${value}`),
  ].join(' ');

/** Jobs that match by name or state; if there are none, those whose summaries match, which rows show only in part. */
function filteredJobs(jobs: readonly Job[], filter: string): readonly Job[] {
  const named = jobs.filter((job) => matches(jobText(job), filter));
  return named.length > 0 ? named : jobs.filter((job) => matches(`${jobText(job)} ${searchedSummary(job)}`, filter));
}

/**
 * The jobs of view 6: running jobs, then queued jobs in the order in which they will run, then ended jobs, newest
 * first. Superseded jobs are hidden unless a filter is set.
 */
export function jobsOf({ jobs, ui, leftAt }: Pick<AppState, 'jobs' | 'ui' | 'leftAt'>): readonly Job[] {
  const all = openFirst(jobs, leftAt);
  if (ui.filters.jobs !== '') return filteredJobs(all, ui.filters.jobs);
  return withoutSuperseded(all, jobs);
}

/** The jobs of the rail. No filter hides any, because the rail is there to watch all of them. */
export const railJobsOf = ({ jobs, leftAt }: Pick<AppState, 'jobs' | 'leftAt'>): readonly Job[] =>
  withoutSuperseded(openFirst(jobs, leftAt), jobs);

/** The name of the job that the rail lists `by` rows below the shown job; undefined if there is no such row. */
export function neighborJob(state: Pick<AppState, 'jobs' | 'attached' | 'leftAt'>, by: 1 | -1): string | undefined {
  const jobs = railJobsOf(state);
  const shown = jobs.findIndex(({ name }) => name === state.attached);
  // A job that the rail lacks, such as a superseded one, has the whole list after it.
  return shown < 0 && by < 0 ? undefined : jobs[shown + by]?.name;
}

/** As neighborJob(), for any number of rows; beyond an end of the rail, the first or the last job. */
export function railJobAt(state: Pick<AppState, 'jobs' | 'attached' | 'leftAt'>, by: number): string | undefined {
  const jobs = railJobsOf(state);
  const shown = jobs.findIndex(({ name }) => name === state.attached);
  return jobs[Math.max(0, Math.min(shown + by, jobs.length - 1))]?.name;
}

function withoutSuperseded(ordered: readonly Job[], jobs: readonly Job[]): readonly Job[] {
  const superseded = supersededIn(jobs);
  return superseded.size === 0 ? ordered : ordered.filter(({ name }) => !superseded.has(name));
}

const STATE_ORDER: Partial<Record<JobState, number>> = { [JobState.RUNNING]: 0, [JobState.QUEUED]: 1 };

/**
 * Running jobs, then waiting ones in the order in which they will run, then ended ones, newest first. Jobs that the
 * user left running and that have ended since come before other jobs of that time.
 */
function openFirst(jobs: readonly Job[], leftAt = Infinity): readonly Job[] {
  const known = orderedOf.get(jobs);
  if (known?.leftAt === leftAt) return known.ordered;
  const order = (job: Job): number => STATE_ORDER[job.state] ?? endedOrder(job, leftAt);
  const place = ({ state, queuePosition }: Job): number => (state === JobState.QUEUED ? queuePosition : 0);
  const ordered = jobs.toSorted((a, b) => order(a) - order(b) || place(a) - place(b));
  orderedOf.set(jobs, { leftAt, ordered });
  return ordered;
}

// Computed once per list, rather than once per frame.
const orderedOf = new WeakMap<readonly Job[], { readonly leftAt: number; readonly ordered: readonly Job[] }>();

function endedOrder(job: Job, leftAt: number): number {
  if (job.createTime !== undefined && timestampMs(job.createTime) >= leftAt) return 2;
  return endedSince(leftAt, job) ? 3 : 4;
}

/** Whether a job was cancelled because a newer save of its watched folder replaced it. */
export const isSuperseded = ({ jobs }: Pick<AppState, 'jobs'>, name: string): boolean => supersededIn(jobs).has(name);

/** Names of the jobs that were cancelled because a newer save of the same watched folder replaced them. */
function supersededIn(jobs: readonly Job[]): ReadonlySet<string> {
  const known = supersededOf.get(jobs);
  if (known !== undefined) return known;
  const superseded = new Set<string>();
  const replaced = new Set<string>();
  // The list is ordered newest first.
  for (const { name, outcome, labels } of jobs) {
    const watch = labels[WATCH_LABEL];
    if (watch === undefined) continue;
    if (outcome === Outcome.CANCELLED && replaced.has(watch)) superseded.add(name);
    replaced.add(watch);
  }
  supersededOf.set(jobs, superseded);
  return superseded;
}

// Computed once per list, which changes every two seconds, rather than once per frame.
const supersededOf = new WeakMap<readonly Job[], ReadonlySet<string>>();

/** Label of a watched folder's jobs; all saves of one watch have the same value. */
export const WATCH_LABEL = 'watch';

const wasStopped = ({ job }: ExperimentSummary): boolean =>
  job?.outcome === Outcome.CANCELLED || job?.outcome === Outcome.INTERRUPTED;

/** The newest experiment of each kernel that was not stopped or, if there is none, the newest one; by kernel id. */
export function lastExperiments(experiments: AppState['experiments']): ReadonlyMap<string, ExperimentSummary> {
  const known = lastOf.get(experiments);
  if (known !== undefined) return known;
  const last = new Map<string, ExperimentSummary>();
  for (const experiment of experiments) {
    const kernelId = experiment.job?.kernelId ?? '';
    const newer = last.get(kernelId);
    if (newer === undefined || (wasStopped(newer) && !wasStopped(experiment))) last.set(kernelId, experiment);
  }
  lastOf.set(experiments, last);
  return last;
}

// Computed once per list, which changes when a job ends, rather than once per frame.
const lastOf = new WeakMap<AppState['experiments'], ReadonlyMap<string, ExperimentSummary>>();

type Compare = (a: ExperimentSummary | undefined, b: ExperimentSummary | undefined) => number;

// Kernels that never ran or have no measurement come last.
const least =
  (value: (experiment: ExperimentSummary) => number | undefined): Compare =>
  (a, b) => {
    const [left, right] = [a, b].map((each) => (each && value(each)) ?? Infinity) as [number, number];
    return left === right ? 0 : left - right;
  };

const KERNEL_ORDERS: Record<Exclude<KernelSort, 'ladder' | 'name'>, Compare> = {
  verdict: least(({ job }) => (job?.outcome === Outcome.PASSED ? 0 : 1)),
  // Emulator times come after GPU times because they are not the same quantity.
  latency: least(({ p50Us, simulated }) => (p50Us === undefined ? undefined : p50Us + (simulated ? 1e12 : 0))),
  registers: least(({ registersPerThread }) => registersPerThread),
  'last run': least(({ job }) => (job?.createTime === undefined ? undefined : -Number(job.createTime.seconds))),
};

const lastSummary = (experiment: ExperimentSummary | undefined): string =>
  experiment?.job === undefined ? '' : searchedSummary(experiment.job);

interface KernelFilter {
  readonly filter: string;
  readonly last: ReturnType<typeof lastExperiments>;
}

/** Kernels that match by name or title; if there are none, those whose lessons or last summaries match. */
function filteredKernels(kernels: readonly ListedKernel[], { filter, last }: KernelFilter): readonly ListedKernel[] {
  const names = ({ kernelId, folder = '', title }: ListedKernel): string => `${kernelId} ${folder} ${title}`;
  const named = kernels.filter((kernel) => matches(names(kernel), filter));
  return named.length > 0
    ? named
    : kernels.filter((kernel) =>
        matches(`${names(kernel)} ${kernel.lesson} ${lastSummary(last.get(kernel.kernelId))}`, filter),
      );
}

/** The kernels that view 7 lists, in the user's order. */
export function kernelsOf({
  kernels,
  experiments,
  ui,
}: Pick<AppState, 'kernels' | 'experiments' | 'ui'>): readonly ListedKernel[] {
  const last = lastExperiments(experiments);
  const listed = ui.filters.kernels === '' ? kernels : filteredKernels(kernels, { filter: ui.filters.kernels, last });
  if (ui.kernelSort === 'ladder') return listed;
  if (ui.kernelSort === 'name') return listed.toSorted((a, b) => a.kernelId.localeCompare(b.kernelId));
  const order = KERNEL_ORDERS[ui.kernelSort];
  return listed.toSorted((a, b) => order(last.get(a.kernelId), last.get(b.kernelId)));
}

/** The list that the key / filters; undefined if / searches the log. */
export function filteredList({ ui }: Pick<AppState, 'ui'>): FilteredList | undefined {
  if (ui.view === 'kernels') return ui.kernelList === 'kernels' ? 'kernels' : 'problems';
  if (ui.view !== 'jobs') return undefined;
  return ui.jobList === 'jobs' ? 'jobs' : 'history';
}

/** The problems that the filter leaves. */
export const problemsOf = ({ problems = [], ui }: Pick<AppState, 'problems' | 'ui'>): readonly ListedProblem[] =>
  problems.filter(({ id, problem }) => matches(`${id} ${problem?.title ?? ''}`, ui.filters.problems));

export const selectedKernel = (state: AppState): ListedKernel | undefined =>
  kernelsOf(state)[state.ui.selected.kernels];

/**
 * p50 (hot, first shape) of the last experiments with the job's variant on its device, oldest first, in microseconds.
 */
export function lastRunsOf({ experiments }: AppState, job: JobView): number[] {
  const same = experiments.filter(
    (experiment) =>
      experiment.job?.label === job.label &&
      experiment.deviceName === job.device?.name &&
      experiment.p50Us !== undefined,
  );
  return same.map(({ p50Us = 0 }) => p50Us).toReversed();
}

const HISTORY_ORDERS: Record<HistorySort, (a: ExperimentSummary, b: ExperimentSummary) => number> = {
  newest: () => 0,
  // Experiments without a measurement come last. Emulator times come after GPU times because they are not the same
  // quantity.
  latency: (a, b) => Number(a.simulated) - Number(b.simulated) || (a.p50Us ?? Infinity) - (b.p50Us ?? Infinity),
  error: (a, b) => b.maxAbsError - a.maxAbsError,
  kernel: (a, b) => (a.job?.label ?? '').localeCompare(b.job?.label ?? ''),
};

/** The ended jobs of view 6 with their results, filtered and in the user's order. */
export function historyOf(state: AppState): ExperimentSummary[] {
  const { ui } = state;
  const text = ({ job, deviceName, dtype, sourceDigest }: ExperimentSummary): string =>
    `${job && `${jobText(job)} ${searchedSummary(job)}`} ${deviceName} ${dtype} ${sourceDigest}`;
  const listed = ui.filters.history === '' ? runsKept(state) : endedRuns(state);
  return listed
    .filter((experiment) => matches(text(experiment), ui.filters.history))
    .toSorted(HISTORY_ORDERS[ui.historySort]);
}

/**
 * The newer save of a superseded experiment may be in the list of jobs only, for example as the verification of the
 * smallest case.
 */
function runsKept(state: AppState): readonly ExperimentSummary[] {
  const { experiments, jobs } = state;
  const [listed, ended] = [supersededIn(jobs), supersededIn(jobsIn(experiments))];
  const all = endedRuns(state);
  if (listed.size + ended.size === 0) return all;
  return all.filter(({ job }) => !listed.has(job?.name ?? '') && !ended.has(job?.name ?? ''));
}

/**
 * The experiments, and the listed ended jobs of other kinds, such as verifications, newest first. The runner keeps
 * figures of experiments only.
 */
export function endedRuns({ experiments, jobs }: Pick<AppState, 'experiments' | 'jobs'>): AppState['experiments'] {
  const known = endedOf.get(experiments)?.get(jobs);
  if (known !== undefined) return known;
  const names = new Set(jobsIn(experiments).map(({ name }) => name));
  const others = jobs.filter(({ name, state }) => state === JobState.ENDED && !names.has(name));
  const created = ({ job }: ExperimentSummary): number =>
    job?.createTime === undefined ? 0 : timestampMs(job.createTime);
  const all =
    others.length === 0
      ? experiments
      : [...experiments, ...others.map((job) => create(ExperimentSummarySchema, { job }))].toSorted(
          (a, b) => created(b) - created(a),
        );
  endedOf.set(experiments, (endedOf.get(experiments) ?? new WeakMap()).set(jobs, all));
  return all;
}

// Computed once per pair of lists, as the superseded jobs are.
const endedOf = new WeakMap<AppState['experiments'], WeakMap<readonly Job[], AppState['experiments']>>();

function jobsIn(experiments: AppState['experiments']): readonly Job[] {
  const known = jobsOfExperiments.get(experiments);
  if (known !== undefined) return known;
  const jobs = experiments.flatMap(({ job }) => job ?? []);
  jobsOfExperiments.set(experiments, jobs);
  return jobs;
}

// Computed once per list, as the superseded jobs are.
const jobsOfExperiments = new WeakMap<AppState['experiments'], readonly Job[]>();

/**
 * Text such as ", 2 superseded saves hidden", or of a filtered list, which hides none, ", 2 superseded saves among
 * them"; empty if the list of view 6 has none.
 */
export function hiddenText(state: AppState): string {
  const { ui } = state;
  if (ui.jobList === 'leaderboard') return '';
  const isFiltered = ui.filters[ui.jobList] !== '';
  const count = isFiltered ? supersededListed(state) : supersededCount(state);
  return count === 0 ? '' : `, ${counted(count, 'superseded save')} ${isFiltered ? 'among them' : 'hidden'}`;
}

const supersededCount = (state: AppState): number =>
  state.ui.jobList === 'jobs' ? supersededIn(state.jobs).size : endedRuns(state).length - runsKept(state).length;

function supersededListed(state: AppState): number {
  if (state.ui.jobList === 'jobs') {
    const superseded = supersededIn(state.jobs);
    return jobsOf(state).filter(({ name }) => superseded.has(name)).length;
  }
  const kept = new Set(runsKept(state));
  return historyOf(state).filter((experiment) => !kept.has(experiment)).length;
}

const LEADERBOARD_ORDERS: Partial<Record<HistorySort, (a: LeaderboardEntry, b: LeaderboardEntry) => number>> = {
  newest: (a, b) => Number((b.time?.seconds ?? 0n) - (a.time?.seconds ?? 0n)),
  kernel: (a, b) => a.label.localeCompare(b.label),
};

/** The leaderboard, filtered and in the user's order; the runner sorts it by speed. */
export function leaderboardOf({ leaderboard, ui }: AppState): LeaderboardEntry[] {
  const entries = (leaderboard?.entries ?? []).filter(({ label }) => matches(label, ui.filters.history));
  const order = LEADERBOARD_ORDERS[ui.historySort];
  return order === undefined ? entries : entries.toSorted(order);
}

/** Name of the job under the cursor of view 6. */
export function selectedJobName(state: AppState): string | undefined {
  const index = state.ui.selected.jobs;
  if (state.ui.jobList === 'leaderboard') return leaderboardOf(state)[index]?.job;
  return state.ui.jobList === 'history' ? historyOf(state)[index]?.job?.name : jobsOf(state)[index]?.name;
}

/** The race of the shown job; undefined if the job is not a search over variants. */
export function raceOfAttached(state: AppState): TuneRace | undefined {
  const job = attachedJob(state);
  return job && raceOf(job);
}

/** Whether a plot of the samples would show a distribution. While samples are taken, it grows from the first one. */
export function hasDistribution({ histogram, latency }: BenchmarkView): boolean {
  const { samples = 0 } = latency ?? {};
  return (histogram?.counts.length ?? 0) > 0 && (samples === 0 || samples >= FEWEST_SAMPLES.interval);
}

/** Whether view 3 draws the distribution of the measurement under its cursor. */
export function showsDistribution(state: AppState): boolean {
  if (state.ui.view !== 'latency' || state.ui.comparing || raceOfAttached(state) !== undefined) return false;
  const { benchmarks = [], comparison } = shownVariant(state) ?? {};
  const pairs = comparison?.shapes.length ?? 0;
  const place = Math.min(state.ui.selected.latency, pairs + benchmarks.length - 1);
  const chosen = benchmarks[place - pairs];
  return chosen !== undefined && hasDistribution(chosen);
}

/** The number of items on which the cursor of a view can be; undefined if the view has no cursor. */
export function itemCount(state: AppState, view: ViewId): number | undefined {
  const variant = shownVariant(state);
  switch (view) {
    case 'correct':
      return variant === undefined ? 0 : checkedOf(variant).length;
    case 'latency': {
      const race = raceOfAttached(state);
      if (race && !state.ui.comparing) return race.rows.length;
      return state.ui.comparing && state.ui.comparePage !== 'latency'
        ? undefined
        : (variant?.benchmarks.length ?? 0) + (state.ui.comparing ? 0 : (variant?.comparison?.shapes.length ?? 0));
    }
    case 'gates':
      return variant?.gates.length ?? 0;
    case 'jobs':
      return { jobs: jobsOf(state), history: historyOf(state), leaderboard: leaderboardOf(state) }[state.ui.jobList]
        .length;
    case 'kernels':
      return state.ui.kernelList === 'kernels' ? kernelsOf(state).length : problemsOf(state).length;
    case 'profile':
    case 'host':
    case 'run':
      return undefined;
  }
}

/** Verdict of an ended phase, from its results; NOT_MEASURED if there are none. */
export function phaseVerdict(job: JobView, { phase, variant: label, steps }: PhaseView): Verdict {
  const variant = job.variants.find((candidate) => candidate.label === label) ?? job.variants[0];
  const failed = (bad: boolean): Verdict => (bad ? Verdict.FAIL : Verdict.PASS);
  switch (phase) {
    case Phase.PRECHECK:
      return failed(job.prechecks.some(({ verdict }) => verdict === Verdict.FAIL));
    case Phase.BUILD:
      return variant?.build === undefined ? Verdict.NOT_MEASURED : failed(!variant.build.succeeded);
    case Phase.VERIFY:
      return verifyVerdict(variant, steps);
    case Phase.BENCHMARK:
      return variant?.benchmarks.some(({ result }) => result !== undefined) ? Verdict.PASS : Verdict.NOT_MEASURED;
    case Phase.COMPARE:
      return comparisonVerdict(variant);
    case Phase.PROFILE:
      return variant?.profile?.verdict ?? Verdict.NOT_MEASURED;
    case Phase.GATES:
      return failed(variant?.gates.some(({ verdict, level }) => verdict === Verdict.FAIL && level === 'hard') ?? false);
    case Phase.UNSPECIFIED:
      return Verdict.NOT_MEASURED;
  }
}

/** FAIL if the candidate is slower, in agreement with the exit code. */
function comparisonVerdict(variant: VariantView | undefined): Verdict {
  const verdict = variant?.comparison?.result?.verdict ?? ComparisonVerdict.NOT_JUDGED;
  if (verdict === ComparisonVerdict.NOT_JUDGED || verdict === ComparisonVerdict.UNSPECIFIED)
    return Verdict.NOT_MEASURED;
  return verdict === ComparisonVerdict.SLOWER ? Verdict.FAIL : Verdict.PASS;
}

function verifyVerdict(variant: VariantView | undefined, steps: number): Verdict {
  const cases = variant?.cases ?? [];
  if (cases.some(({ verdict }) => verdict === Verdict.FAIL)) return Verdict.FAIL;
  const passed = cases.filter(({ verdict }) => verdict === Verdict.PASS).length;
  return passed > 0 && passed >= steps ? Verdict.PASS : Verdict.NOT_MEASURED;
}

/**
 * The time that a job's clocks show: the job's end, even if only the list of jobs has it so far, else the time at which
 * the runner was lost, else now.
 */
export function clockOf({ jobs, now, lostAt }: AppState, { name, endTime, state }: ClockedJob): number {
  if (endTime !== undefined) return endTime;
  const listed = state === JobState.ENDED ? jobs.find((job) => job.name === name)?.endTime : undefined;
  return listed === undefined ? (lostAt ?? now) : timestampMs(listed);
}

type ClockedJob = Pick<JobView, 'name' | 'endTime' | 'state'>;

/**
 * False for a job that ended without having run, and for one whose end is not known: nobody can say when a runner that
 * was killed stopped working on its job.
 */
export const hasDuration = ({
  outcome,
  state,
  startTime,
}: Pick<Job | JobView, 'outcome' | 'state' | 'startTime'>): boolean =>
  outcome !== Outcome.INTERRUPTED && (state !== JobState.ENDED || startTime !== undefined);

/** Milliseconds that the job has run so far, or in total once it has ended. */
export function elapsedMs(job: JobView, now: number): number {
  const start = job.startTime ?? job.createTime;
  return start === undefined ? 0 : Math.max(0, (job.endTime ?? now) - start);
}
