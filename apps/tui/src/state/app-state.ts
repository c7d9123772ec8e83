/** Everything that the screen shows except log lines, which the store keeps in ring buffers. */
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
  InstructionListing,
  Job,
} from '@flashcore/shared/contract';
import type { Block } from '../present/blocks.ts';
import type { ListedProblem } from '../present/sections/problem.ts';
import type { ListedKernel } from './listed-kernel.ts';
import type { Choice } from './decision.ts';
import type { JobView } from './job-view.ts';
import type { RunForm } from './run-form.ts';

/** How the terminal announces the end of a long job. */
export const END_NOTICES = ['none', 'bell', 'notification'] as const;
export type EndNotice = (typeof END_NOTICES)[number];

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

/** The line of the help about each view's key. */
export const VIEW_HELP: Record<ViewId, string> = {
  run: 'Run: phases, findings and the live log',
  correct: 'Correct: the errors of each case, error map',
  latency: 'Latency: statistics and live histogram',
  profile: 'Profile: registers, occupancy, counters',
  gates: 'Gates: value, target, distance and reason',
  jobs: 'Jobs, history, leaderboard',
  kernels: 'Kernels and problems: yours and the ladder',
  host: 'Host: runner, devices, tools',
};

export type Connection = 'connecting' | 'connected' | 'reconnecting';

export interface LogPosition {
  readonly follow: boolean;
  /** Number of the first line shown if `follow` is off. */
  readonly top: number;
  /** True if a search jumped to the line `top`. It is then shown with some of the lines before it. */
  readonly isHit?: boolean | undefined;
  readonly wrap: boolean;
  /** Number of cells that are scrolled off to the left; only while long lines are cut. */
  readonly left: number;
  readonly query: string;
  /** True to show only lines that match the query. */
  readonly filter: boolean;
}

export const HISTORY_SORTS = ['newest', 'latency', 'error', 'kernel'] as const;
export type HistorySort = (typeof HISTORY_SORTS)[number];

/** Orders of view 7: `ladder` is the runner's order; the others sort by the last experiment of each kernel. */
export const KERNEL_SORTS = ['ladder', 'name', 'verdict', 'latency', 'registers', 'last run'] as const;
export type KernelSort = (typeof KERNEL_SORTS)[number];

/** Lists of view 6. */
export const JOB_LISTS = ['jobs', 'history', 'leaderboard'] as const;
export type JobList = (typeof JOB_LISTS)[number];

/** The content of view 7: kernels, problems, or only the definition of the selected problem. */
export type KernelList = 'kernels' | 'problems' | 'definition';

/** Lists with a filter; history and leaderboard share one. */
export type FilteredList = 'jobs' | 'history' | 'kernels' | 'problems';

/** Forms of a distribution in view 3. */
export const DISTRIBUTIONS = ['both', 'histogram', 'ecdf'] as const;
export type DistributionPlot = (typeof DISTRIBUTIONS)[number];

/** Orders of the source lines of view 4: `line` is the file's order; the others put the largest figure first. */
export const LINE_SORTS = ['line', 'instructions', 'conflicts', 'wavefronts', 'sectors', 'tensor', 'special'] as const;
export type LineSort = (typeof LINE_SORTS)[number];

/** Pages of a comparison of two jobs. */
export const COMPARE_PAGES = ['latency', 'figures', 'source'] as const;
export type ComparePage = (typeof COMPARE_PAGES)[number];

/** Dialogs drawn over the panes. */
export type Overlay =
  | {
      readonly kind: 'help';
      readonly query: string;
      /** Length of the text after the cursor, as in InputLine; so in every overlay below. */
      readonly after?: number;
      readonly selected: number;
      /**
       * Ids of the commands that are listed first. They are chosen when the help opens, so that no row moves under the
       * cursor.
       */
      readonly here: readonly string[];
    }
  | { readonly kind: 'search'; readonly text: string; readonly after?: number; readonly before: LogPosition }
  | { readonly kind: 'form'; readonly form: RunForm; readonly defaults: RunForm }
  | { readonly kind: 'copy' }
  /** The command log. */
  | { readonly kind: 'commands'; readonly selected: number }
  | {
      readonly kind: 'lab-log';
      /** Milliseconds since 1970: only jobs that ended since then; 0 for all. */
      readonly since: number;
      /** Absent while it is read. */
      readonly blocks?: readonly Block[];
      readonly top: number;
    }
  | {
      readonly kind: 'watch-folder';
      readonly text: string;
      readonly after?: number;
      /** Folders that complete the text, after Tab. */
      readonly names: readonly string[];
      /** The problem with the text, after Enter. */
      readonly problem?: string;
      /** True to run the smallest case of every save first. */
      readonly quick: boolean;
    }
  | {
      readonly kind: 'new-kernel';
      /** The name, or the path, of the new folder. */
      readonly text: string;
      readonly after?: number;
      /** The kernel to copy: an id of the runner's, or a folder. */
      readonly from: string;
      /** Whether the folder is being made, after Enter. */
      readonly isMaking?: boolean;
      /** The reason why the folder could not be made, after Enter. */
      readonly problem?: string;
    }
  | {
      readonly kind: 'list-filter';
      readonly list: FilteredList;
      readonly text: string;
      readonly after?: number;
      /** Whether nothing was typed yet: the text is the filter from before, which a typed character replaces. */
      readonly untouched?: boolean;
    }
  | {
      readonly kind: 'decide';
      /** Name of the job. */
      readonly job: string;
      readonly choice: Choice;
      readonly note: string;
      readonly after?: number;
      /** The first row shown of the part below the note. */
      readonly top: number;
    }
  | {
      readonly kind: 'confirm';
      readonly question: string;
      /** The keys that answer; absent: y for yes, any other key for no. */
      readonly answers?: string;
      readonly commandId: string;
      readonly subjects: readonly string[];
    };

export interface Notice {
  readonly text: string;
  readonly tone: 'info' | 'warn' | 'bad';
  /** Milliseconds since 1970; old notices disappear. */
  readonly time: number;
  /**
   * The notice disappears when the connection is back, when the watched folder runs again, when all of `jobs` have
   * ended, or when another view or job is shown.
   */
  readonly about?: 'connection' | 'folder' | 'cancel' | 'view' | undefined;
  /** The jobs that are being cancelled; none if they have ended already. */
  readonly jobs?: readonly string[] | undefined;
  /** Becomes true once the notice is out of date; the notice then disappears. */
  readonly until?: ((state: AppState) => boolean) | undefined;
}

/** The command line that does the same as a pressed key. */
export interface LoggedCommand {
  /** Milliseconds since 1970. */
  readonly time: number;
  readonly text: string;
}

/** A kernel folder that runs on every save. */
export interface WatchedFolder {
  readonly folder: string;
  /** Milliseconds since 1970; absent if nothing was saved since watching began. */
  readonly lastSave?: number | undefined;
  /** Jobs of the latest saved version and of the version before, if they were started. */
  readonly job?: string | undefined;
  readonly jobBefore?: string | undefined;
}

/** A form that was run, and the values that its kernel has by default. */
export interface StartedForm {
  readonly form: RunForm;
  readonly defaults: RunForm;
}

export interface UiState {
  readonly view: ViewId;
  /** True to show only the current view, in full size. */
  readonly zoomed: boolean;
  /** True if the rail of jobs has the cursor instead of the view. */
  readonly inRail: boolean;
  readonly selected: Readonly<Record<ViewId, number>>;
  /**
   * Places of the cursors in the version before of a watched kernel. A cursor returns to its place once the new version
   * has as many rows, unless the user has moved it.
   */
  readonly placesBefore: Readonly<Partial<Record<ViewId, number>>>;
  readonly jobList: JobList;
  readonly kernelList: KernelList;
  /** True to also list the kernels under kernels/faulty. */
  readonly faulty: boolean;
  /** True if fa-tui handles wheel and clicks. Then the terminal selects text only while Shift is held. */
  readonly mouse: boolean;
  /** Names of the jobs that the user marked in view 6. Marked jobs may have ended. */
  readonly marked: readonly string[];
  /** Name of the job that other jobs are compared with. */
  readonly pinned?: string | undefined;
  /** True if view 3 compares the shown job with the pinned one. */
  readonly comparing: boolean;
  readonly comparePage: ComparePage;
  readonly distribution: DistributionPlot;
  /** Block of the error map under the cursor of view 2; absent while the case list has the cursor. */
  readonly mapCursor?: { readonly row: number; readonly column: number } | undefined;
  /** Head whose error map is shown, counted through all batches; absent: the largest error over all heads. */
  readonly mapHead?: number | undefined;
  /** The job that the user last opened from a list. A job that this program starts is shown without being opened. */
  readonly openedJob?: string | undefined;
  /** The last form that was run; r repeats it. */
  readonly lastForm?: StartedForm | undefined;
  /** The forms that started jobs since the program began, by the job's name. */
  readonly forms: Readonly<Record<string, StartedForm>>;
  /** Sort order of the source lines of view 4. */
  readonly lineSort: LineSort;
  /** Index of the listing shown next to the source in view 4; undefined for none. */
  readonly listing?: number | undefined;
  /** The source line under the listing's cursor; undefined for the hottest line. */
  readonly listedPlace?: { readonly file: string; readonly line: number } | undefined;
  /** Order of history and leaderboard. */
  readonly historySort: HistorySort;
  readonly kernelSort: KernelSort;
  /** Filter words by list. A list shows only rows that contain them. */
  readonly filters: Readonly<Record<FilteredList, string>>;
  /** Index of the variant whose findings are shown; 0: the requested variant. */
  readonly variant: number;
  /** Index of the finding shown, within that variant. */
  readonly finding: number;
  /** Page of the details about the item under the cursor. Each view takes it modulo its number of pages. */
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
  /** For a host that fa-tui started: since when it costs money, and its price. */
  readonly instance?: HostStart | undefined;
}

export interface RunnerRestart {
  /** Milliseconds since 1970. */
  readonly time: number;
  /** True if the user has pressed a key since the screen said so. */
  readonly read: boolean;
  /**
   * Number of the jobs that the restart interrupted. It is set when the user has read the message; until then the jobs
   * are in `interrupted`.
   */
  readonly jobs: number;
}

export interface HostStart {
  /** Milliseconds since 1970. */
  readonly startedAt?: number | undefined;
  readonly usdPerHour?: number | undefined;
}

export interface AppState {
  readonly runner: ShownRunner;
  readonly connection: Connection;
  /** Milliseconds since 1970; undefined while the runner is connected. */
  readonly lostAt?: number | undefined;
  /**
   * When the user last pressed a key in an fa-tui on this runner before this one was started, in milliseconds since
   * 1970; undefined if that is not known.
   */
  readonly leftAt?: number | undefined;
  /** The last time that another process took over from the runner that this client had reached. */
  readonly restart?: RunnerRestart | undefined;
  /** Names of the jobs that were open and ended as interrupted since a restart was last read. */
  readonly interrupted: readonly string[];
  readonly host?: Host | undefined;
  /** The name and role that the runner gives this client. */
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
  /** The runner's readings of each GPU while view 8 was open, the oldest first, by device id. */
  readonly readings: Readonly<Record<string, readonly DeviceReading[]>>;
  readonly jobs: readonly Job[];
  readonly experiments: readonly ExperimentSummary[];
  readonly kernels: readonly ListedKernel[];
  /** The problems of this installation and project; undefined until they are read. */
  readonly problems?: readonly ListedProblem[] | undefined;
  /** False until the runner has listed its kernels. */
  readonly hasKernels: boolean;
  /** Jobs whose events this client has, by name. */
  readonly views: Readonly<Record<string, JobView>>;
  /** Benchmark samples read for comparing, microseconds, by digest of the artifact. */
  readonly samples: Readonly<Record<string, readonly number[]>>;
  /** Text of source files read for comparing, by digest. */
  readonly sources: Readonly<Record<string, string>>;
  /** Listings of instructions read for view 4, by digest. */
  readonly listings: Readonly<Record<string, InstructionListing | 'unreadable'>>;
  readonly leaderboard?: GetLeaderboardResponse | undefined;
  readonly watching?: WatchedFolder | undefined;
  /** The job that is shown; undefined until a job is started or opened. */
  readonly attached?: string | undefined;
  readonly notice?: Notice | undefined;
  /** Command lines that are equivalent to what keys started, cancelled and decided, the oldest first. */
  readonly commandLog: readonly LoggedCommand[];
  /** The user's own keys, by the command's id. */
  readonly customKeys: Readonly<Record<string, readonly string[]>>;
  /** Milliseconds since 1970. The clock updates it, so that views stay pure. */
  readonly now: number;
  readonly ui: UiState;
}

/** True if the screen shows one view and no rail. */
export const isSingle = ({ columns, rows, zoomed }: Pick<UiState, 'columns' | 'rows' | 'zoomed'>): boolean =>
  zoomed || columns < 100 || rows < 30;

interface StartState {
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
    interrupted: [],
    jobs: [],
    experiments: [],
    kernels: [],
    hasKernels: false,
    plans: [],
    caseSets: [],
    tolerances: [],
    champions: [],
    decisions: [],
    views: {},
    samples: {},
    sources: {},
    listings: {},
    readings: {},
    commandLog: [],
    customKeys,
    now,
    ui: {
      view: 'run',
      zoomed: false,
      inRail: false,
      jobList: 'jobs',
      kernelList: 'kernels',
      faulty: false,
      mouse: false,
      comparing: false,
      comparePage: 'latency',
      distribution: 'both',
      lineSort: 'line',
      marked: [],
      forms: {},
      historySort: 'newest',
      kernelSort: 'ladder',
      filters: { jobs: '', history: '', kernels: '', problems: '' },
      variant: 0,
      finding: 0,
      detail: 0,
      columns,
      rows,
      placesBefore: {},
      selected: { run: 0, correct: 0, latency: 0, profile: 0, gates: 0, jobs: 0, kernels: 0, host: 0 },
      log: { follow: true, top: 0, wrap: true, left: 0, query: '', filter: false },
    },
  };
}
