/** Which panes stand where: one view at 80 columns, a rail beside it from 100, all views from 160. */
import type { UiState, ViewId } from '../../state/app-state.ts';

export type PaneId = ViewId | 'log';

export interface PlacedPane {
  readonly id: PaneId;
  readonly width: number;
  readonly height: number;
}

/** Panes of one column, top to bottom. */
export type PaneColumn = readonly PlacedPane[];

export const MIN_COLUMNS = 60;
export const MIN_ROWS = 16;
// Header, tabs, message, key hints.
export const CHROME_ROWS = 4;

type Screen = Pick<UiState, 'columns' | 'rows' | 'view' | 'zoomed'>;

export const isTooSmall = ({ columns, rows }: Pick<UiState, 'columns' | 'rows'>): boolean =>
  columns < MIN_COLUMNS || rows < MIN_ROWS;

/** Columns of panes that together fill the screen below the tabs exactly. */
export function layoutOf({ columns, rows, view, zoomed }: Screen): PaneColumn[] {
  const height = rows - CHROME_ROWS;
  if (zoomed || columns < 100 || rows < 30) return [[{ id: view, width: columns, height }]];
  return columns >= 160 && rows >= 50 ? dashboard(columns, height) : withRail(columns, height, view);
}

// Jobs and gates share the rail so that at 120x40 all gates of the canonical set are in sight.
function withRail(columns: number, height: number, view: ViewId): PaneColumn[] {
  const rail = Math.min(40, Math.floor(columns * 0.3));
  const jobs = Math.max(7, Math.floor(height * 0.25));
  const log = view === 'run' ? 0 : Math.max(6, Math.floor(height * 0.25));
  const main = { width: columns - rail };
  // A view that is open beside the rail leaves its place in it to the host.
  const inRail = (id: ViewId): ViewId => (id === view ? 'host' : id);
  return [
    stack(rail, [
      [inRail('jobs'), jobs],
      [inRail('gates'), height - jobs],
    ]),
    [{ id: view, ...main, height: height - log }, ...(log === 0 ? [] : [{ id: 'log' as const, ...main, height: log }])],
  ];
}

function dashboard(columns: number, height: number): PaneColumn[] {
  const [left, right] = [Math.floor(columns * 0.2), Math.floor(columns * 0.32)];
  const part = (share: number): number => Math.floor(height * share);
  return [
    stack(left, [
      ['jobs', part(0.24)],
      ['gates', part(0.45)],
      ['host', height - part(0.24) - part(0.45)],
    ]),
    stack(columns - left - right, [
      ['latency', part(0.48)],
      ['correct', height - part(0.48)],
    ]),
    stack(right, [
      ['profile', part(0.36)],
      ['kernels', part(0.26)],
      ['run', height - part(0.36) - part(0.26)],
    ]),
  ];
}

const stack = (width: number, panes: readonly (readonly [ViewId, number])[]): PaneColumn =>
  panes.map(([id, height]) => ({ id, width, height }));

/** The pane that keys go to. */
export function focusedPane(screen: Screen): PlacedPane {
  const panes = layoutOf(screen).toReversed().flat();
  return (
    panes.find(({ id }) => id === screen.view) ?? {
      id: screen.view,
      width: screen.columns,
      height: screen.rows - CHROME_ROWS,
    }
  );
}
