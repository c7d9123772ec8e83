/** Inline mode: log lines go to the terminal's own scrollback, and the job's state is shown below them. */
import { fitRow, run, type Row } from '../present/cells/row.ts';
import type { LogBuffer } from '../state/log-buffer.ts';
import type { Snapshot } from '../state/log-search.ts';
import { attachedJob, clockOf } from '../state/selectors.ts';
import { jobTitle } from '../present/words.ts';
import type { AppState } from '../state/app-state.ts';
import { headerRow } from './chrome/header.ts';
import { wholeLine } from './run/log.ts';
import { jobRow } from './run/run.ts';
import { footerRows } from './chrome/hints.ts';

// If a job has a longer log when it is first shown, only these last lines go to the scrollback.
const MOST_EARLIER_LINES = 1_000;
// Limit on the height of a view below the prompt, so that part of the scrollback stays visible.
const MOST_ROWS = 24;

/** Rows that the program takes at the bottom of the terminal. */
export const inlineRows = (terminalRows: number): number => Math.max(1, Math.min(MOST_ROWS, terminalRows - 1));

/** True if only the job's state is shown below the log: view 1, with no dialog over it. */
export const isStatusOnly = ({ ui }: AppState): boolean =>
  ui.view === 'run' && !['help', 'form', 'decide', 'commands', 'lab-log'].includes(ui.overlay?.kind ?? '');

/** The job whose log is in the scrollback, and how much of it. */
export interface Printed {
  readonly job: string | undefined;
  /** Number of the next line. */
  readonly next: number;
}

/** The rows that the scrollback does not have yet. */
export function newRows(
  { state, log }: Pick<Snapshot, 'state' | 'log'>,
  printed: Printed,
): { rows: Row[]; printed: Printed } {
  const { attached } = state;
  const isNew = attached !== printed.job;
  const from = isNew ? Math.max(log.start, log.end - MOST_EARLIER_LINES) : Math.max(log.start, printed.next);
  return {
    rows: [...(isNew ? jobTitleRows(state, from) : []), ...linesOf(log, from)],
    printed: { job: attached, next: log.end },
  };
}

function jobTitleRows(state: AppState, earlier: number): Row[] {
  const job = attachedJob(state);
  if (job === undefined) return [];
  return [
    [run(`── ${jobTitle(job)} `, 'title'), run(job.name, 'dim')],
    ...(earlier > 0 ? [[run(`${earlier} earlier lines: fa-tui watch ${job.name}`, 'dim')]] : []),
  ];
}

const linesOf = (log: LogBuffer, from: number): Row[] =>
  Array.from({ length: log.end - from }, (_, index) => log.at(from + index)).flatMap((line) =>
    line === undefined ? [] : [wholeLine(line)],
  );

/** The job's state, the newest message and the keys. */
export function statusRows(state: AppState): Row[] {
  const { columns } = state.ui;
  const job = attachedJob(state);
  const phases = job === undefined ? [] : [jobRow(job, clockOf(state, job), columns - 1)];
  return [
    headerRow(state, columns),
    ...phases.map((row) => fitRow([run(' '), ...row], columns)),
    ...footerRows(state, columns),
  ];
}
