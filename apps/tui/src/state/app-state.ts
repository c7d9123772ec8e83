/** Everything that the screen shows but log lines, which lie in ring buffers beside it. */
import type {
  Tolerance,
  Caller,
  CaseSet,
  Champion,
  Decision,
  DeviceReading,
  ExperimentSummary,
  GatePlan,
  GetLeaderboardResponse,
  Host,
  Job,
} from '@flashcore/shared/contract';
import type { ListedKernel } from './listed-kernel.ts';
import type { Choice } from './decision.ts';
import type { JobView } from './job-view.ts';
import type { RunForm } from './run-form.ts';

export const VIEWS = ['run', 'correct', 'latency', 'profile', 'gates', 'jobs', 'kernels', 'host'] as const;
export type ViewId = (typeof VIEWS)[number];

export const VIEW_TITLES: Record<ViewId, string> = {
  run: '1 Run',
  correct: '2 Correct',
  latency: '3 Latency',
  profile: '4 Profile',
  gates: '5 Gates',
  jobs: '6 Jobs',
  kernels: '7 Kernels',
  host: '8 Host',
};

export type Connection = 'connecting' | 'connected' | 'reconnecting';

export interface LogPosition {
  readonly follow: boolean;
  /** Number of the first line shown when not following. */
  readonly top: number;
  readonly wrap: boolean;
  /** Cells that lie to the left of the window, while long lines are cut. */
  readonly left: number;
  readonly query: string;
  /** Only lines that match. */
  readonly filter: boolean;
}

export const HISTORY_SORTS = ['newest', 'latency', 'error', 'kernel'] as const;
export type HistorySort = (typeof HISTORY_SORTS)[number];

/** Orders of view 7: as the runner lists them, else by what the last experiment of each found. */
export const KERNEL_SORTS = ['ladder', 'name', 'verdict', 'latency', 'registers', 'last run'] as const;
export type KernelSort = (typeof KERNEL_SORTS)[number];

/** What view 6 lists. */
export const JOB_LISTS = ['jobs', 'history', 'leaderboard'] as const;
export type JobList = (typeof JOB_LISTS)[number];

/** Lists with a filter; history and leaderboard share theirs. */
export type FilteredList = 'jobs' | 'history' | 'kernels';

/** How view 3 draws a distribution. */
export const DISTRIBUTIONS = ['both', 'histogram', 'ecdf'] as const;
export type DistributionPlot = (typeof DISTRIBUTIONS)[number];

/** Orders of the source lines of view 4: as in the file, else the largest figure first. */
export const LINE_SORTS = ['line', 'instructions', 'conflicts', 'wavefronts', 'sectors'] as const;
export type LineSort = (typeof LINE_SORTS)[number];

/** What a comparison of two jobs shows. */
export const COMPARE_PAGES = ['latency', 'figures', 'source'] as const;
export type ComparePage = (typeof COMPARE_PAGES)[number];

/** What lies over the panes. */
export type Overlay =
  | { readonly kind: 'help'; readonly query: string; readonly selected: number }
  | { readonly kind: 'search'; readonly text: string; readonly before: LogPosition }
  | { readonly kind: 'form'; readonly form: RunForm; readonly defaults: RunForm }
  | { readonly kind: 'copy' }
  | {
      readonly kind: 'watch-folder';
      readonly text: string;
      /** Folders that begin as the text does, after Tab. */
      readonly names: readonly string[];
      /** What is wrong with the text, after Enter. */
      readonly problem?: string;
      /** Every save is tried on the smallest case first. */
      readonly quick: boolean;
    }
  | { readonly kind: 'list-filter'; readonly list: FilteredList; readonly text: string }
  | {
      readonly kind: 'decide';
      /** Name of the job. */
      readonly job: string;
      readonly choice: Choice;
      readonly note: string;
      /** First row shown of what stands below the note. */
      readonly top: number;
    }
  | { readonly kind: 'confirm'; readonly question: string; readonly commandId: string; readonly subject: string };

export interface Notice {
  readonly text: string;
  readonly tone: 'info' | 'warn' | 'bad';
  /** Milliseconds since 1970; old ones go. */
  readonly time: number;
  /** Goes with the state that it tells of: the connection when that is back, the watched folder when it runs again. */
  readonly about?: 'connection' | 'folder' | undefined;
}

/** A kernel folder whose every save runs. */
export interface WatchedFolder {
  readonly folder: string;
  /** Milliseconds since 1970; absent: nothing was saved since watching began. */
  readonly lastSave?: number | undefined;
  /** Jobs of the version that was saved last and of the one before it, as far as they were started. */
  readonly job?: string | undefined;
  readonly jobBefore?: string | undefined;
}

export interface UiState {
  readonly view: ViewId;
  /** Only the current view, as large as the screen. */
  readonly zoomed: boolean;
  readonly selected: Readonly<Record<ViewId, number>>;
  readonly jobList: JobList;
  /** Kernels under kernels/faulty too. */
  readonly faulty: boolean;
  /** Wheel and clicks are ours; the terminal then selects text only with Shift. */
  readonly mouse: boolean;
  /** Name of the job that others are compared with. */
  readonly pinned?: string | undefined;
  /** View 3 shows the job against the pinned job. */
  readonly comparing: boolean;
  readonly comparePage: ComparePage;
  readonly distribution: DistributionPlot;
  /** Block of the error map under the cursor of view 2; absent while its list has the cursor. */
  readonly mapCursor?: { readonly row: number; readonly column: number } | undefined;
  /** Head, counted through all batches, whose error map is shown; absent: the largest error of all. */
  readonly mapHead?: number | undefined;
  /** The last form that was run: what r repeats. */
  readonly lastForm?: { readonly form: RunForm; readonly defaults: RunForm } | undefined;
  /** What the source lines of view 4 are sorted by. */
  readonly lineSort: LineSort;
  /** Order of history and leaderboard. */
  readonly historySort: HistorySort;
  readonly kernelSort: KernelSort;
  /** Only rows with these words. */
  readonly filters: Readonly<Record<FilteredList, string>>;
  /** Which variant's findings are shown: 0 the one asked for. */
  readonly variant: number;
  /** Which of its findings is shown: 0 the first. */
  readonly finding: number;
  /** Page of the details of what the cursor is on; views take it modulo the number of pages. */
  readonly detail: number;
  readonly log: LogPosition;
  readonly overlay?: Overlay | undefined;
  readonly columns: number;
  readonly rows: number;
}

/** The runner as the screen names it. */
export interface ShownRunner {
  readonly label: string;
  readonly embedded: boolean;
  /** Of a host that fa-tui started: since when it costs, and how much. */
  readonly instance?: HostStart | undefined;
}

export interface HostStart {
  /** Milliseconds since 1970. */
  readonly startedAt?: number | undefined;
  readonly usdPerHour?: number | undefined;
}

export interface AppState {
  readonly runner: ShownRunner;
  readonly connection: Connection;
  readonly host?: Host | undefined;
  /** Who asks, as the runner knows them. */
  readonly caller?: Caller | undefined;
  /** The runner's plans, the default first. */
  readonly plans: readonly GatePlan[];
  /** The runner's sets of cases. */
  readonly caseSets: readonly CaseSet[];
  /** The runner's tolerance profiles, the default first. */
  readonly tolerances: readonly Tolerance[];
  readonly champions: readonly Champion[];
  /** The audit trail, the latest first. */
  readonly decisions: readonly Decision[];
  /** What the runner read of each GPU while view 8 was open, the oldest first, by the device's id. */
  readonly readings: Readonly<Record<string, readonly DeviceReading[]>>;
  readonly jobs: readonly Job[];
  readonly experiments: readonly ExperimentSummary[];
  readonly kernels: readonly ListedKernel[];
  /** Jobs whose events this client has, by name. */
  readonly views: Readonly<Record<string, JobView>>;
  /** Benchmark samples read for comparing, microseconds, by digest of the artifact. */
  readonly samples: Readonly<Record<string, readonly number[]>>;
  /** Text of source files read for comparing, by digest. */
  readonly sources: Readonly<Record<string, string>>;
  readonly leaderboard?: GetLeaderboardResponse | undefined;
  readonly watching?: WatchedFolder | undefined;
  /** The job shown; undefined until one is started or attached to. */
  readonly attached?: string | undefined;
  readonly notice?: Notice | undefined;
  /** The user's own keys, by the command's id. */
  readonly customKeys: Readonly<Record<string, readonly string[]>>;
  /** Milliseconds since 1970, moved by the clock so that views stay pure. */
  readonly now: number;
  readonly ui: UiState;
}

export interface StartState {
  readonly runner: AppState['runner'];
  readonly columns: number;
  readonly rows: number;
  readonly now: number;
  readonly customKeys?: AppState['customKeys'];
}

export function initialState({ runner, columns, rows, now, customKeys = {} }: StartState): AppState {
  return {
    runner,
    connection: 'connecting',
    jobs: [],
    experiments: [],
    kernels: [],
    plans: [],
    caseSets: [],
    tolerances: [],
    champions: [],
    decisions: [],
    views: {},
    samples: {},
    sources: {},
    readings: {},
    customKeys,
    now,
    ui: {
      view: 'run',
      zoomed: false,
      jobList: 'jobs',
      faulty: false,
      mouse: false,
      comparing: false,
      comparePage: 'latency',
      distribution: 'both',
      lineSort: 'line',
      historySort: 'newest',
      kernelSort: 'ladder',
      filters: { jobs: '', history: '', kernels: '' },
      variant: 0,
      finding: 0,
      detail: 0,
      columns,
      rows,
      selected: { run: 0, correct: 0, latency: 0, profile: 0, gates: 0, jobs: 0, kernels: 0, host: 0 },
      log: { follow: true, top: 0, wrap: true, left: 0, query: '', filter: false },
    },
  };
}
