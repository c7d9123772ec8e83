/**
 * The row above the key hints: a prompt, the newest message or the last warning of a job that runs; and what it leaves
 * for the panes.
 */
import { JobState } from '@flashcore/shared/contract';
import { cellWidth, cutCells } from '../plot/cells.ts';
import { fitRow, run, wrapRows, type Role, type Row } from '../plot/row.ts';
import type { AppState, Notice, UiState } from '../state/app-state.ts';
import { attachedJob } from '../state/selectors.ts';

const TONES: Record<Notice['tone'], Role> = { info: 'accent', warn: 'warn', bad: 'bad' };

const MOST_MESSAGE_ROWS = 4;

/**
 * A question, the search being typed, a message in as many rows as it takes, or the last warning of a job that runs.
 */
export function messageRows(state: AppState, width: number): Row[] {
  const { notice, ui } = state;
  if (
    ui.overlay?.kind === 'search' ||
    ui.overlay?.kind === 'history-filter' ||
    ui.overlay?.kind === 'watch-folder' ||
    ui.overlay?.kind === 'confirm'
  )
    return [promptRow(ui.overlay, width)];
  if (notice !== undefined) return wrapped(notice.text, TONES[notice.tone], width);
  if (state.connection === 'reconnecting')
    return wrapped(
      `Lost ${state.runner.label}: trying again. What is shown is from before; jobs go on there.`,
      'warn',
      width,
    );
  const job = attachedJob(state);
  // Of a job that has ended the log keeps it, and the panes get the rows.
  const warning = job?.state === JobState.ENDED ? undefined : job?.warnings.at(-1);
  if (warning !== undefined) return wrapped(`warning: ${warning}`, 'warn', width);
  return state.watching === undefined
    ? [fitRow([], width)]
    : wrapped(`watching ${state.watching}: a saved file runs, W ends`, 'accent', width);
}

const wrapped = (text: string, role: Role, width: number): Row[] =>
  wrapRows(text, width - 1, { role, indent: 1, hang: 1 })
    .slice(0, MOST_MESSAGE_ROWS)
    .map((row) => fitRow(row, width));

type Prompt = Extract<
  NonNullable<UiState['overlay']>,
  { kind: 'search' | 'history-filter' | 'watch-folder' | 'confirm' }
>;

function promptRow(overlay: Prompt, width: number): Row {
  if (overlay.kind === 'confirm')
    return fitRow(
      [run(' '), run(cutCells(overlay.question, width - 24), 'warn'), run('  y yes   any key no', 'key')],
      width,
    );
  const label = overlay.kind === 'watch-folder' ? ' folder to watch: ' : ' /';
  return fitRow([run(label, 'key'), run(lastCells(overlay.text, width - label.length - 2)), run('█', 'accent')], width);
}

function lastCells(text: string, width: number): string {
  return cellWidth(text) <= width
    ? text
    : `…${Array.from(text)
        .slice(-(width - 1))
        .join('')}`;
}

/** The screen without the rows that a long message takes from the panes. */
export const screenOf = (state: AppState): UiState => ({
  ...state.ui,
  rows: state.ui.rows + 1 - messageRows(state, state.ui.columns).length,
});
