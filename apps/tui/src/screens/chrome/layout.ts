/**
 * The arrangement of the panes. On 80 columns there is one view. From 100 columns on there is also a fixed rail with
 * jobs, gates and build, and from 160 columns on more views. View 1 is a dashboard of several panes.
 */
import { isSingle, type UiState, type ViewId } from '../../state/app-state.ts';

/** Panes that belong to a view but are not views themselves. */
type LivePane = 'log' | 'jobs-rail' | 'gates-rail' | 'build-rail' | 'correct-live' | 'latency-live' | 'finding';
export type PaneId = ViewId | LivePane;

export interface PlacedPane {
  readonly id: PaneId;
  readonly width: number;
  readonly height: number;
}

/** Panes of one column, top to bottom. */
export type PaneColumn = readonly PlacedPane[];
/** Columns next to each other, all of the same height. */
export type PaneBand = readonly PaneColumn[];

export const MIN_COLUMNS = 60;
export const MIN_ROWS = 16;
// Header, tabs, message, key hints.
export const CHROME_ROWS = 4;

export type LaidOut = Pick<UiState, 'columns' | 'rows' | 'view' | 'zoomed' | 'inRail'> & {
  /** True if the kernel has a finding, which is shown instead of its latency. */
  readonly hasFinding: boolean;
  /** True if there is a latency to show. */
  readonly hasLatency: boolean;
  /** True if the job never takes samples, so that its latency needs no pane in view 1. */
  readonly hasNoSamples: boolean;
  /** True if the shown job has gates, which then need most of the rail. */
  readonly hasGates: boolean;
  /** Number of jobs that the rail lists. */
  readonly jobCount: number;
  /** True if view 4 shows source and instructions, which need the room of all other views. */
  readonly hasListing: boolean;
};

export const isTooSmall = ({ columns, rows }: Pick<UiState, 'columns' | 'rows'>): boolean =>
  columns < MIN_COLUMNS || rows < MIN_ROWS;

/** Bands of columns of panes, top to bottom. Together they exactly fill the screen below the tabs. */
export function layoutOf(screen: LaidOut): PaneBand[] {
  const { columns, rows, view } = screen;
  const height = rows - CHROME_ROWS;
  // A narrow screen has no room for the rail next to source and instructions.
  if (screen.hasListing && columns < 160 && !isSingle(screen)) return [[stack(columns, withLog(view, height))]];
  if (isSingle(screen)) return [[[{ id: view, width: columns, height }]]];
  return columns >= 160 && rows >= 50 ? wide(screen, height) : [withRail(screen, height)];
}

const RAIL_CELLS = 40;
const BUILD_ROWS = 4;

/** Rows of the Gates pane if it only says why a job has no gates. */
const NO_GATES_ROWS = 5;
const BORDER_ROWS = 2;

function rail(width: number, height: number, { hasGates, jobCount }: LaidOut): PaneColumn {
  // The height of the jobs pane leaves room for the gates of the canonical set.
  const least = Math.max(6, Math.floor(height * 0.2));
  const jobs = hasGates
    ? least
    : Math.max(least, Math.min(jobCount + BORDER_ROWS, height - BUILD_ROWS - NO_GATES_ROWS));
  return stack(width, [
    ['jobs-rail', jobs],
    ['gates-rail', height - jobs - BUILD_ROWS],
    ['build-rail', BUILD_ROWS],
  ]);
}

function withRail(screen: LaidOut, height: number): PaneBand {
  const { columns, view } = screen;
  const railCells = Math.min(RAIL_CELLS, Math.floor(columns * 0.32));
  const width = columns - railCells;
  const main: readonly (readonly [PaneId, number])[] =
    view === 'run' ? runPanes(screen, height) : withLog(view, height);
  return [rail(railCells, height, screen), stack(width, main)];
}

/** The panes for correctness, and for latency or the finding. The log gets the remaining rows. */
function runPanes({ hasFinding, hasNoSamples }: LaidOut, height: number): readonly (readonly [PaneId, number])[] {
  // Room for seven parity cases in two columns, and for the worst element in two rows.
  const correct = Math.min(9, Math.floor(height * 0.3));
  if (hasNoSamples && !hasFinding)
    return [
      ['correct-live', correct],
      ['log', height - correct],
    ];
  const latency = Math.max(8, Math.floor(height * 0.28));
  return [
    ['correct-live', correct],
    [hasFinding ? 'finding' : 'latency-live', latency],
    ['log', height - correct - latency],
  ];
}

function withLog(view: ViewId, height: number): readonly (readonly [PaneId, number])[] {
  const log = Math.max(6, Math.floor(height * 0.25));
  return [
    [view, height - log],
    ['log', log],
  ];
}

/** Three columns above a full-width log, because log lines are long and wrapped lines are hard to read. */
function wide(screen: LaidOut, height: number): PaneBand[] {
  const { columns, view, hasFinding, hasLatency, hasListing } = screen;
  const log = Math.max(10, Math.floor(height * 0.25));
  const above = height - log;
  const belowAll: PaneBand = [[{ id: 'log', width: columns, height: log }]];
  if (hasListing)
    return [
      [rail(RAIL_CELLS, above, screen), [{ id: 'profile', width: columns - RAIL_CELLS, height: above }]],
      belowAll,
    ];
  const right = Math.floor(columns * 0.36);
  const left = columns - RAIL_CELLS - right;
  if (view !== 'run')
    return [[rail(RAIL_CELLS, above, screen), ...aroundFocused({ view, hasLatency, left, right, above })], belowAll];
  const part = (share: number): number => Math.floor(above * share);
  return [
    [
      rail(RAIL_CELLS, above, screen),
      stack(left, [
        [hasFinding ? 'finding' : 'latency', part(0.48)],
        ['correct', above - part(0.48)],
      ]),
      stack(right, [
        ['profile', part(0.45)],
        ['kernels', above - part(0.45)],
      ]),
    ],
    belowAll,
  ];
}

interface FocusedPlace extends Pick<LaidOut, 'view' | 'hasLatency'> {
  readonly left: number;
  readonly right: number;
  readonly above: number;
}

/** The focused view takes the wide column, and two others are next to it. */
function aroundFocused({ view, hasLatency, left, right, above }: FocusedPlace): PaneColumn[] {
  const others: readonly ViewId[] = [...(hasLatency ? (['latency'] as const) : []), 'correct', 'profile', 'kernels'];
  const [upper = 'correct', lower = 'kernels'] = others.filter((other) => other !== view);
  const upperRows = Math.floor(above * 0.45);
  return [
    stack(left, [[view, above]]),
    stack(right, [
      [upper, upperRows],
      [lower, above - upperRows],
    ]),
  ];
}

const stack = (width: number, panes: readonly (readonly [PaneId, number])[]): PaneColumn =>
  panes.map(([id, height]) => ({ id, width, height }));

/** The view that each pane belongs to, which a click on the pane opens. */
const VIEW_OF: Record<LivePane, ViewId> = {
  log: 'run',
  'jobs-rail': 'jobs',
  'gates-rail': 'gates',
  'build-rail': 'profile',
  'correct-live': 'correct',
  'latency-live': 'latency',
  finding: 'run',
};

export const viewOf = (id: PaneId): ViewId => (id in VIEW_OF ? VIEW_OF[id as LivePane] : (id as ViewId));

/** True if keys go to the pane. In view 1 keys go to the log. */
export const hasFocus = (id: PaneId, { view, inRail }: Pick<UiState, 'view' | 'inRail'>): boolean =>
  inRail ? id === 'jobs-rail' : isOfView(id, view);

const isOfView = (id: PaneId, view: ViewId): boolean => (view === 'run' ? id === 'run' || id === 'log' : id === view);

/** The pane of the view, which receives keys unless the rail has the cursor. */
export function focusedPane(screen: LaidOut): PlacedPane {
  const panes = layoutOf(screen).flat(2);
  return (
    panes.find(({ id }) => isOfView(id, screen.view)) ?? {
      id: screen.view,
      width: screen.columns,
      height: screen.rows - CHROME_ROWS,
    }
  );
}
