/**
 * The row above the key hints, with a prompt, the newest message or a running job's last warning. It also determines
 * the size left for the panes.
 */
import { JobKind, JobState } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import { cellWidth } from '../../present/cells/cell-text.ts';
import { inputRuns } from '../../present/cells/input-runs.ts';
import { fitRow, rowText, rowWidth, run, wrapRows, type Role, type Row } from '../../present/cells/row.ts';
import { partsOf } from '../../state/input-line.ts';
import type { AppState, Notice, UiState, WatchedFolder } from '../../state/app-state.ts';
import { queueText } from '../../state/job-list.ts';
import { shownFinding, openListing } from '../../state/source-place.ts';
import type { LaidOut } from './layout.ts';
import { saveDifference } from '../../state/save-difference.ts';
import { counted, formatAge, formatTimeOfDay } from '../../present/numbers.ts';
import { attachedJob, idleFallback, itemCount, railJobsOf, shownVariant, variantsOf } from '../../state/selectors.ts';

const TONES: Record<Notice['tone'], Role> = { info: 'accent', warn: 'warn', bad: 'bad' };

const MOST_MESSAGE_ROWS = 4;

/** A question, the search being typed, a message in full length, or the last warning of a running job. */
export function messageRows(state: AppState, width: number): Row[] {
  const { notice, ui } = state;
  if (
    ui.overlay?.kind === 'search' ||
    ui.overlay?.kind === 'list-filter' ||
    ui.overlay?.kind === 'watch-folder' ||
    ui.overlay?.kind === 'new-kernel' ||
    ui.overlay?.kind === 'confirm'
  )
    return promptRows(ui.overlay, width);
  if (notice !== undefined) return wrapped(notice.text, TONES[notice.tone], width);
  if (state.connection === 'reconnecting') return wrapped(lostText(state), 'warn', width);
  if (state.restart?.read === false) return wrapped(`${restartText(state)}.`, 'warn', width);
  const job = attachedJob(state);
  if (job?.state === JobState.QUEUED) {
    const ahead = queueText(state.jobs, job.name);
    if (ahead !== '') return wrapped(`queued, ${ahead}`, 'accent', width);
  }
  // After the job has ended, the warning remains in the log and the panes get its rows.
  const fallback = job && idleFallback(job);
  if (job !== undefined && fallback !== undefined)
    return wrapped(
      `${variantsOf(job)[0]?.label} failed: its fallback ${fallback.label} runs as well, and decides nothing; x stops it, r runs the kernel again at once`,
      'accent',
      width,
    );
  const warning = job?.state === JobState.ENDED ? undefined : job?.warnings.at(-1);
  if (warning !== undefined) return wrapped(`warning: ${warning}`, 'warn', width);
  return state.watching === undefined
    ? [fitRow([], width)]
    : wrapped(fittingText(state, state.watching, width), 'accent', width);
}

/** The text with the folder's path if it fits into a row, otherwise with only the folder's name. */
function fittingText(state: AppState, watching: WatchedFolder, width: number): string {
  const text = watchingText(state, watching);
  return cellWidth(text) <= width - 2
    ? text
    : watchingText(state, { ...watching, folder: watching.folder.replace(/^.*\/(?=[^/])/, '') });
}

/** An embedded runner is on this machine, so it is lost only if it ended, and then its jobs ended too. */
function lostText({ runner: { label, embedded }, lostAt, now }: AppState): string {
  const since = Math.max(0, now - (lostAt ?? now));
  const age = since < 1000 ? '' : ` ${formatAge(since / 1000)}`;
  return embedded
    ? `Lost ${label}${age}: starting it again. Jobs that it was running end as interrupted.`
    : `Lost ${label}${age}: reconnecting. The screen shows the last known state; jobs keep running.`;
}

/** "The runner was restarted at 20:39:18, which interrupted 1 job". */
export function restartText({ restart, interrupted }: AppState): string {
  const count = interrupted.length + (restart?.jobs ?? 0);
  const jobs = count === 0 ? '' : `, which interrupted ${counted(count, 'job')}`;
  return `The runner was restarted at ${formatTimeOfDay(restart?.time ?? 0).slice(0, 8)}${jobs}`;
}

/** Text such as "watching k: last save 12 s ago, changed since the previous save: regs 76→61; W stops". */
export function watchingText({ views, now }: AppState, { folder, lastSave, job, jobBefore }: WatchedFolder): string {
  if (lastSave === undefined) return `watching ${folder}: every save runs; W stops`;
  const [before, after] = [entryOf(views, jobBefore ?? ''), entryOf(views, job ?? '')];
  const changes = before === undefined || after === undefined ? '' : saveDifference(before, after);
  const difference = changes === '' ? '' : `, changed since the previous save: ${changes}`;
  return `watching ${folder}: last save ${formatAge((now - lastSave) / 1000)}${difference}; W stops`;
}

/** The message's first rows; "…" ends the last one if there are more. */
function wrapped(text: string, role: Role, width: number): Row[] {
  const rows = wrapRows(text, width - 2, { role, indent: 1, hang: 1 });
  return rows
    .slice(0, MOST_MESSAGE_ROWS)
    .map((row, index) =>
      fitRow(
        index === MOST_MESSAGE_ROWS - 1 && rows.length > MOST_MESSAGE_ROWS ? [...row, run('…', role)] : row,
        width,
      ),
    );
}

type Prompt = Extract<
  NonNullable<UiState['overlay']>,
  { kind: 'search' | 'list-filter' | 'watch-folder' | 'new-kernel' | 'confirm' }
>;

/** A question in full, because it names what it is about; the answers are in its last row. */
function promptRows(overlay: Prompt, width: number): Row[] {
  if (overlay.kind !== 'confirm') return typedRows(overlay, width);
  const { question, answers = 'y yes   any key no' } = overlay;
  const rows = wrapRows(question, width - 4 - answers.length, { role: 'warn', indent: 1, hang: 1 });
  return rows.map((row, index) =>
    fitRow(index === rows.length - 1 ? [...row, run(`  ${answers}`, 'key')] : row, width),
  );
}

/** The prompt and its remark, which moves to rows of its own if the typed text leaves too little room. */
function typedRows(overlay: Exclude<Prompt, { kind: 'confirm' }>, width: number): Row[] {
  const label = labelOf(overlay);
  const prompt: Row = [run(label, 'key'), ...inputRuns(partsOf(overlay), width - label.length - 1)];
  const remark = remarkOf(overlay);
  const text = rowText(remark).trim();
  if (rowWidth(prompt) + rowWidth(remark) < width) return [fitRow([...prompt, ...remark], width)];
  return [fitRow(prompt, width), ...wrapped(text, remark.at(-1)?.role ?? 'dim', width)];
}

/** Completions of the text, and the problem with it. */
function remarkOf(overlay: Exclude<Prompt, { kind: 'confirm' }>): Row {
  if (overlay.kind === 'list-filter' && overlay.untouched === true) return [run('  typing replaces it', 'dim')];
  if (overlay.kind !== 'watch-folder' && overlay.kind !== 'new-kernel') return [];
  if (overlay.kind === 'new-kernel' && overlay.isMaking === true) return [run('  making the copy', 'accent')];
  const names = overlay.kind === 'watch-folder' ? overlay.names : [];
  return [run(names.map((name) => `  ${name}`).join(''), 'dim'), run(`  ${overlay.problem ?? ''}`, 'warn')];
}

function labelOf(overlay: Exclude<Prompt, { kind: 'confirm' }>): string {
  if (overlay.kind === 'watch-folder') return ' folder to watch: ';
  return overlay.kind === 'new-kernel' ? ` name of your copy of ${overlay.from.replace(/^.*\//, '')}: ` : ' /';
}

/** The screen without the rows that a long message needs. */
/** Jobs that take no samples. */
const NO_SAMPLES: readonly JobKind[] = [JobKind.BUILD, JobKind.VERIFY, JobKind.PROFILE];

export const screenOf = (state: AppState): UiState & LaidOut => ({
  ...state.ui,
  hasFinding: shownFinding(state) !== undefined,
  hasLatency: state.ui.comparing || (itemCount(state, 'latency') ?? 0) > 0,
  hasNoSamples: NO_SAMPLES.includes(attachedJob(state)?.kind ?? JobKind.UNSPECIFIED),
  hasListing: openListing(state) !== undefined,
  hasGates: (shownVariant(state)?.gates.length ?? 0) > 0,
  jobCount: railJobsOf(state).length,
  rows: state.ui.rows + 1 - messageRows(state, state.ui.columns).length,
});
