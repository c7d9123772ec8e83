/** Returns the state after an action. Pure; the store keeps the log lines. */
import type { Action } from './actions.ts';
import { VIEWS, isSingle, type AppState, type FilteredList, type UiState, type WatchedFolder } from './app-state.ts';
import { jobViewOf, type JobView } from './job-view.ts';
import { reduceJob, withoutEventsBefore } from './job-reducer.ts';
import { JobKind, JobState, Outcome, type Host, type Job, type JobEvent } from '@flashcore/shared/contract';
import {
  attachedJob,
  caseShown,
  historyOf,
  itemCount,
  jobsOf,
  kernelsOf,
  leaderboardOf,
  problemsOf,
  selectedJobName,
  selectedKernel,
  variantsOf,
} from './selectors.ts';
import { kernelKey } from './listed-kernel.ts';
import { withJobEvent } from './job-list.ts';
import { withSavedView } from './saved-view.ts';
import { timestampMs, type Timestamp } from '@bufbuild/protobuf/wkt';
import { entryOf } from '@flashcore/shared/text';
import { shownFinding } from './source-place.ts';

const MOST_COMMANDS = 200;
const NOTICE_MS = 12_000;
/** After this time the user is assumed to have read a message, so the next key removes the message. */
const READ_MS = 1_500;

export function reduce(state: AppState, action: Action): AppState {
  const next = reduced(state, action);
  return action.type !== 'notice' && next.notice?.until?.(next) ? { ...next, notice: undefined } : next;
}

function reduced(state: AppState, action: Action): AppState {
  switch (action.type) {
    case 'job-event':
      return withEvent(state, action.event);
    case 'events-expired':
      return withView(state, action.job, (view) => withoutEventsBefore(view, Number(action.first)));
    case 'connection':
      return withConnection(state, action.connection);
    case 'runner':
      return { ...state, runner: action.runner };
    case 'restore':
      return withSavedView(state, action.view);
    case 'host':
      return {
        ...state,
        host: action.host,
        restart: restartOf(state, action.host),
        readings: withReadings(state.readings, action.host),
        caller: action.caller,
        plans: action.plans ?? state.plans,
        caseSets: action.caseSets ?? state.caseSets,
        tolerances: action.tolerances ?? state.tolerances,
      };
    case 'champions':
      return { ...state, champions: action.champions.champions, decisions: action.champions.decisions };
    case 'jobs':
      return withJobs(state, action.jobs);
    case 'experiments':
      return clampSelections({ ...state, experiments: action.experiments });
    case 'kernels':
      return withKernels(state, action.kernels);
    case 'problems':
      return clampSelections({ ...state, problems: action.problems });
    case 'attach':
      return withoutViewNotice(attach(state, action));
    case 'watching':
      return {
        ...state,
        watching: action.folder === undefined ? undefined : { folder: action.folder },
        notice: withoutFolderNotice(state),
      };
    case 'saved':
      return state.watching === undefined ? state : { ...state, watching: { ...state.watching, lastSave: state.now } };
    case 'version-started':
      return withVersion(state, action);
    case 'samples':
      return { ...state, samples: { ...state.samples, [action.sha256]: action.samples } };
    case 'source':
      return { ...state, sources: { ...state.sources, [action.sha256]: action.text } };
    case 'listing':
      return { ...state, listings: { ...state.listings, [action.sha256]: action.listing } };
    case 'show-listing':
      return withUi(state, { listing: action.listing, inRail: false, detail: 0 });
    case 'listed-place':
      return withUi(state, { listedPlace: action.place, detail: 0 });
    case 'leaderboard':
      return clampSelections({ ...state, leaderboard: action.leaderboard });
    case 'job-list':
      return clampSelections(
        withUi(state, {
          jobList: action.list,
          historySort: action.list === 'leaderboard' ? 'latency' : 'newest',
          selected: { ...state.ui.selected, jobs: 0 },
        }),
      );
    case 'kernel-list': {
      // The cursor stays on its problem when the definition is opened and closed.
      const sameList = (action.list === 'kernels') === (state.ui.kernelList === 'kernels');
      const kernels = sameList ? state.ui.selected.kernels : 0;
      return clampSelections(
        withUi(state, { kernelList: action.list, detail: 0, selected: { ...state.ui.selected, kernels } }),
      );
    }
    case 'compare-page':
      return clampSelections(
        withUi(state, {
          comparePage: action.page,
          placesBefore: {},
          selected: { ...state.ui.selected, latency: 0 },
        }),
      );
    case 'distribution':
      return withUi(state, { distribution: action.plot });
    case 'map-cursor':
      return withUi(state, { mapCursor: action.cursor, detail: 0 });
    case 'map-head':
      return withUi(state, { mapHead: action.head, detail: 0 });
    case 'job-opened':
      return withUi(state, { openedJob: action.job });
    case 'form-run':
      return withUi(state, { lastForm: action.form });
    case 'form-of-job':
      return withUi(state, { forms: { ...state.ui.forms, [action.job]: action.form } });
    case 'mark':
      return withUi(state, { marked: action.jobs });
    case 'pin':
      return withUi(state, {
        pinned: action.job,
        // A job is never compared with itself.
        comparing: state.ui.comparing && action.job !== undefined && action.job !== state.attached,
      });
    case 'compare':
      return clampSelections(
        withUi(state, {
          comparing: action.on,
          comparePage: 'latency',
          placesBefore: {},
          selected: { ...state.ui.selected, latency: 0 },
        }),
      );
    case 'history-order':
      return clampSelections(withUi(state, { historySort: action.sort, selected: { ...state.ui.selected, jobs: 0 } }));
    case 'line-order':
      return withUi(state, { lineSort: action.sort });
    case 'kernel-order':
      return withUi(state, { kernelSort: action.sort, selected: { ...state.ui.selected, kernels: 0 } });
    case 'list-filter':
      return withFilter(state, action.list, action.text);
    case 'kernel-chosen':
      return withKernelChosen(state, action.key);
    case 'notice': {
      const { text, tone, about, jobs, until } = action;
      return { ...state, notice: { text, tone, time: state.now, about, jobs, until } };
    }
    case 'command':
      return {
        ...state,
        commandLog: [...state.commandLog, { time: state.now, text: action.text }].slice(-MOST_COMMANDS),
      };
    case 'key': {
      const { about } = state.notice ?? {};
      const isRead =
        (about === undefined || about === 'cancel' || about === 'view') &&
        state.now - (state.notice?.time ?? 0) > READ_MS;
      const { restart } = state;
      const isSeen = restart !== undefined && !restart.read && state.now - restart.time > READ_MS;
      if (!isRead && !isSeen) return state;
      return {
        ...state,
        notice: isRead ? undefined : state.notice,
        ...(isSeen && { restart: { ...restart, read: true, jobs: state.interrupted.length }, interrupted: [] }),
      };
    }
    case 'tick': {
      const old = state.notice !== undefined && action.now - state.notice.time > NOTICE_MS;
      return { ...state, now: action.now, notice: old ? undefined : state.notice };
    }
    case 'next-variant': {
      const variants = variantsOf(attachedJob(state)).length;
      return variants < 2
        ? state
        : clampSelections(withUi(state, { variant: (state.ui.variant + 1) % variants, finding: 0 }));
    }
    case 'next-finding':
      return withUi(state, { finding: ((shownFinding(state)?.place ?? 0) + 1) % (shownFinding(state)?.count ?? 1) });
    case 'show':
    case 'next-view':
      return clampSelections(withoutViewNotice(atShownCase(withUi(state, reduceUi(state, action)), caseShown(state))));
    case 'resize':
    case 'zoom':
    case 'rail':
    case 'move':
    case 'move-to':
    case 'detail':
    case 'toggle':
    case 'overlay':
      return clampSelections(withUi(state, reduceUi(state, action)));
    case 'search':
      return withUi(state, {
        log: { ...state.ui.log, query: action.query, filter: action.query !== '' && state.ui.log.filter },
        overlay: undefined,
      });
    case 'log-sideways':
      // Horizontal scrolling only makes sense while long lines are cut.
      return withUi(state, {
        log: { ...state.ui.log, wrap: false, left: Math.max(0, state.ui.log.left + action.by) },
      });
    case 'log-position':
      return withUi(state, { log: { ...state.ui.log, follow: action.follow, top: action.top, isHit: action.isHit } });
  }
}

/**
 * The state with the cursor of view 2 on the case that was shown. If view 2 was next to another view, it opens on the
 * case that it showed there.
 */
const atShownCase = (state: AppState, correct: number): AppState =>
  state.ui.view === 'correct' ? withUi(state, { selected: { ...state.ui.selected, correct } }) : state;

/** A notice about what was on the screen means nothing above another view or job. */
const withoutViewNotice = (state: AppState): AppState =>
  state.notice?.about === 'view' ? { ...state, notice: undefined } : state;

/** The number of readings that a wide pane can plot: two minutes at one reading every two seconds. */
const MOST_READINGS = 60;

/** Adds new readings. Skips a reading that the runner already returned. */
function withReadings(before: AppState['readings'], { devices }: Host): AppState['readings'] {
  const fresh = devices.flatMap(({ deviceId, reading }) => {
    const known = entryOf(before, deviceId) ?? [];
    const isNew = reading?.time !== undefined && !isSameTime(reading.time, known.at(-1)?.time);
    return isNew ? [[deviceId, [...known, reading].slice(-MOST_READINGS)] as const] : [];
  });
  return fresh.length === 0 ? before : { ...before, ...Object.fromEntries(fresh) };
}

function withEvent(before: AppState, event: JobEvent): AppState {
  const state = event.payload.case === 'finished' ? withoutCancelled(before, (job) => job === event.job) : before;
  const viewed = withView(state, event.job, (view) => reduceJob(view, event));
  const hasPlaces = event.job === state.attached && Object.keys(state.ui.placesBefore).length > 0;
  const next = hasPlaces && viewed !== state ? clampSelections(viewed) : viewed;
  const jobs = viewed === state ? state.jobs : withJobEvent(state.jobs, event);
  return jobs === state.jobs ? next : withJobs(next, jobs);
}

/** Names of the rows that a filter applies to, in their order. */
const ROW_NAMES: Record<FilteredList, (state: AppState) => readonly string[]> = {
  jobs: (state) => jobsOf(state).map(({ name }) => name),
  history: (state) =>
    state.ui.jobList === 'leaderboard'
      ? leaderboardOf(state).map(({ job }) => job)
      : historyOf(state).map(({ job }) => job?.name ?? ''),
  kernels: (state) => kernelsOf(state).map(kernelKey),
  problems: (state) => problemsOf(state).map(({ id }) => id),
};

/** Filters a list. The cursor stays on its row if the row is still listed, and goes to the first one otherwise. */
function withFilter(state: AppState, list: FilteredList, text: string): AppState {
  const next = withUi(state, { filters: { ...state.ui.filters, [list]: text }, overlay: undefined });
  const view = list === 'jobs' || list === 'history' ? 'jobs' : 'kernels';
  const chosen = ROW_NAMES[list](state)[state.ui.selected[view]];
  const place = chosen === undefined ? -1 : ROW_NAMES[list](next).indexOf(chosen);
  return clampSelections(withUi(next, { selected: { ...next.ui.selected, [view]: Math.max(0, place) } }));
}

/** Moves the cursor of view 7 to a kernel. A filter that hides the kernel is removed. */
function withKernelChosen(state: AppState, key: string): AppState {
  const placeIn = (of: AppState): number => kernelsOf(of).findIndex((kernel) => kernelKey(kernel) === key);
  const shown = placeIn(state) < 0 ? withFilter(state, 'kernels', '') : state;
  const place = placeIn(shown);
  return place < 0 ? state : withUi(shown, { detail: 0, selected: { ...shown.ui.selected, kernels: place } });
}

/** Keeps the cursor on its kernel when a folder is listed above it. */
function withKernels(state: AppState, kernels: AppState['kernels']): AppState {
  const chosen = selectedKernel(state);
  const next = { ...state, kernels, hasKernels: true };
  if (state.ui.kernelList !== 'kernels') return next;
  const place =
    chosen === undefined ? -1 : kernelsOf(next).findIndex((kernel) => kernelKey(kernel) === kernelKey(chosen));
  return clampSelections(place < 0 ? next : withUi(next, { selected: { ...state.ui.selected, kernels: place } }));
}

/** Drops a notice about jobs that are being cancelled once all of them have ended. */
function withoutCancelled(state: AppState, hasEnded: (job: string) => boolean): AppState {
  const { notice } = state;
  if (notice?.about !== 'cancel' || notice.jobs === undefined || notice.jobs.length === 0) return state;
  const jobs = notice.jobs.filter((job) => !hasEnded(job));
  if (jobs.length === notice.jobs.length) return state;
  return { ...state, notice: jobs.length === 0 ? undefined : { ...notice, jobs } };
}

/** Drops a notice about a lost connection once the connection is back. */
function withConnection(state: AppState, connection: AppState['connection']): AppState {
  const isStale = connection === 'connected' && state.notice?.about === 'connection';
  if (state.connection === connection && !isStale) return state;
  return {
    ...state,
    connection,
    ...(connection === 'connected' && { lostAt: undefined }),
    ...(connection === 'reconnecting' && state.lostAt === undefined && { lostAt: state.now }),
    ...(isStale && { notice: undefined }),
  };
}

/** A restart shows in the id of the runner's process. */
function restartOf({ host: before, restart, now }: AppState, host: Host): AppState['restart'] {
  const isOther = before !== undefined && before.processId !== 0 && before.processId !== host.processId;
  return isOther
    ? { time: host.startTime === undefined ? now : timestampMs(host.startTime), read: false, jobs: 0 }
    : restart;
}

/** Names of the jobs that were open in the list before, and that the runner's end interrupted. */
function interruptedIn(before: AppState['jobs'], jobs: AppState['jobs']): readonly string[] {
  const open = new Set(before.filter(({ state }) => state !== JobState.ENDED).map(({ name }) => name));
  return jobs.filter(({ name, outcome }) => open.has(name) && outcome === Outcome.INTERRUPTED).map(({ name }) => name);
}

function withVersion(state: AppState, { job, isRest = false }: Extract<Action, { type: 'version-started' }>): AppState {
  const { watching } = state;
  if (watching === undefined || watching.job === job) return state;
  return {
    ...state,
    watching: { ...watching, job, jobBefore: isRest ? watching.jobBefore : jobToCompareWith(state, watching) },
    // The folder runs again, so a notice about it is out of date.
    notice: withoutFolderNotice(state),
  };
}

const withoutFolderNotice = ({ notice }: AppState): AppState['notice'] =>
  notice?.about === 'folder' ? undefined : notice;

/** The version to compare the next one with. A superseded version is skipped, because it measured too little. */
function jobToCompareWith({ views }: AppState, { job, jobBefore }: WatchedFolder): string | undefined {
  const last = entryOf(views, job ?? '');
  return last?.state === JobState.ENDED && last.outcome !== Outcome.CANCELLED ? job : jobBefore;
}

function withView(state: AppState, job: string, change: (view: JobView) => JobView): AppState {
  const before = entryOf(state.views, job) ?? unknownJob(job);
  const after = change(before);
  return after === before ? state : { ...state, views: { ...state.views, [job]: after } };
}

const withUi = (state: AppState, change: Partial<UiState>): AppState => ({ ...state, ui: { ...state.ui, ...change } });

/**
 * Keeps the cursor on its job while jobs start, end and appear above it. While another view has the focus, the cursor
 * follows the shown job.
 */
function withJobs(before: AppState, read: AppState['jobs']): AppState {
  const jobs = isSameList(before.jobs, read) ? before.jobs : read;
  const interrupted = interruptedIn(before.jobs, jobs);
  const isOver = (name: string): boolean => jobs.find((job) => job.name === name)?.state === JobState.ENDED;
  const state = withListedEnd(
    withoutCancelled(
      interrupted.length === 0 ? before : { ...before, interrupted: [...before.interrupted, ...interrupted] },
      isOver,
    ),
    jobs,
  );
  const isSame = jobs === before.jobs;
  if (state.ui.jobList !== 'jobs') return isSame ? state : clampSelections({ ...state, jobs });
  const wanted = state.ui.view === 'jobs' ? selectedJobName(state) : state.attached;
  const next = { ...state, jobs };
  const place = Math.max(
    0,
    jobsOf(next).findIndex(({ name }) => name === wanted),
  );
  if (isSame && place === state.ui.selected.jobs) return state;
  return clampSelections(withUi(next, { selected: { ...state.ui.selected, jobs: place } }));
}

/** Whether nothing has changed since the list was last read, as in most reads of it. */
const isSameList = (before: AppState['jobs'], jobs: AppState['jobs']): boolean =>
  before.length === jobs.length && jobs.every((job, index) => isSameJob(job, before[index]));

/** The other fields of a job never change. */
const isSameJob = (job: Job, before: Job | undefined): boolean =>
  before !== undefined &&
  job.name === before.name &&
  job.state === before.state &&
  job.outcome === before.outcome &&
  job.summary === before.summary &&
  job.queuePosition === before.queuePosition &&
  job.lastSequence === before.lastSequence &&
  isSameTime(job.startTime, before.startTime) &&
  isSameTime(job.endTime, before.endTime);

const isSameTime = (a: Timestamp | undefined, b: Timestamp | undefined): boolean =>
  a?.seconds === b?.seconds && a?.nanos === b?.nanos;

/** Marks the shown job as ended if the list says so, even if its log is still being read. */
function withListedEnd(state: AppState, jobs: AppState['jobs']): AppState {
  const listed = jobs.find(({ name }) => name === state.attached);
  if (listed?.state !== JobState.ENDED) return state;
  const { outcome, summary } = listed;
  return withView(state, listed.name, (view) =>
    view.state === JobState.ENDED ? view : { ...view, state: JobState.ENDED, outcome, summary },
  );
}

const unknownJob = (name: string) =>
  jobViewOf({
    name,
    kind: JobKind.UNSPECIFIED,
    label: '',
    kernelId: '',
    state: JobState.UNSPECIFIED,
    outcome: Outcome.UNSPECIFIED,
    summary: '',
  });

const JOB_VIEWS = ['correct', 'latency', 'gates', 'profile'] as const;

/** Shows another job: its first variant, and the end of its log. */
function attach(state: AppState, { job, isVersion = false }: Extract<Action, { type: 'attach' }>): AppState {
  if (state.attached === job) return state;
  // A comparison applies only to the two jobs that it was started for.
  const comparing = false;
  const known = entryOf(state.views, job) ?? jobViewOf(state.jobs.find(({ name }) => name === job) ?? unknownJob(job));
  // A cursor that was not moved stays where the new job puts it, such as on the first case that fails.
  const places = JOB_VIEWS.map((view) => [view, state.ui.placesBefore[view] ?? state.ui.selected[view]] as const);
  const placed = Object.fromEntries(places.filter(([, place]) => place > 0));
  // While a folder is watched, the search stays for its next save; it means nothing in the log of another kernel.
  const isOtherKernel = known.kernelId !== '' && attachedJob(state)?.kernelId !== known.kernelId;
  return clampSelections({
    ...withUi(state, {
      selected: { ...state.ui.selected, correct: 0, latency: 0, gates: 0, profile: 0 },
      placesBefore: isVersion && !isOtherKernel ? placed : {},
      comparing,
      variant: 0,
      finding: 0,
      listedPlace: undefined,
      mapCursor: undefined,
      mapHead: undefined,
      log: { ...state.ui.log, follow: true, top: 0, left: 0, ...(isOtherKernel && { query: '', filter: false }) },
    }),
    attached: job,
    views: { ...state.views, [job]: known },
  });
}

type UiAction = Extract<
  Action,
  { type: 'resize' | 'show' | 'next-view' | 'zoom' | 'rail' | 'move' | 'move-to' | 'detail' | 'toggle' | 'overlay' }
>;

function reduceUi(state: AppState, action: UiAction): Partial<UiState> {
  const { ui } = state;
  switch (action.type) {
    case 'resize': {
      // Lines wrap at another width, so the row to which view 4 was scrolled has another content.
      const profile = action.columns === ui.columns ? ui.selected.profile : 0;
      const { columns, rows } = action;
      const inRail = ui.inRail && !isSingle({ ...ui, columns, rows });
      return { columns, rows, inRail, selected: { ...ui.selected, profile } };
    }
    case 'show':
      return { view: action.view, inRail: false, detail: 0, mapCursor: undefined };
    case 'next-view':
      return {
        view: VIEWS[(VIEWS.indexOf(ui.view) + action.step + VIEWS.length) % VIEWS.length] ?? 'run',
        inRail: false,
        detail: 0,
        mapCursor: undefined,
      };
    case 'zoom':
      return { zoomed: !ui.zoomed, inRail: false };
    case 'rail':
      return { inRail: action.on };
    case 'move':
      return moveTo(ui, Math.max(0, ui.selected[ui.view] + action.by), action.limit);
    case 'move-to':
      return moveTo(ui, action.end === 'first' ? 0 : Number.MAX_SAFE_INTEGER, action.limit);
    case 'detail':
      return { detail: ui.detail + action.by };
    case 'overlay':
      return { overlay: action.overlay };
    case 'toggle':
      if (action.what === 'wrap') return { log: { ...ui.log, wrap: !ui.log.wrap, left: 0 } };
      if (action.what === 'filter') return { log: { ...ui.log, filter: ui.log.query !== '' && !ui.log.filter } };
      return { [action.what]: !ui[action.what] };
  }
}

const moveTo = (ui: UiState, place: number, limit = Number.MAX_SAFE_INTEGER): Partial<UiState> => ({
  detail: 0,
  mapHead: undefined,
  placesBefore: { ...ui.placesBefore, [ui.view]: undefined },
  selected: { ...ui.selected, [ui.view]: Math.min(place, limit) },
});

/** Keeps every cursor within its list. */
function clampSelections(state: AppState): AppState {
  const clamped = Object.fromEntries(
    VIEWS.map((view) => {
      const count = itemCount(state, view);
      const place = state.ui.placesBefore[view] ?? state.ui.selected[view];
      return [view, count === undefined ? place : Math.min(place, Math.max(0, count - 1))];
    }),
  ) as UiState['selected'];
  return withUi(state, { selected: clamped });
}
