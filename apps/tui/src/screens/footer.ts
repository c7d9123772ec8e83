/** The last two rows: a prompt or the newest message, and the keys that do something now. */
import { cutCells, takeCells, cellWidth } from '../plot/cells.ts';
import { fitRow, run, type Role, type Row } from '../plot/row.ts';
import { fitParts } from '../plot/table.ts';
import { COMMANDS } from '../keys/commands.ts';
import type { AppState, Notice } from '../state/app-state.ts';
import { attachedJob } from '../state/selectors.ts';

const TONES: Record<Notice['tone'], Role> = { info: 'accent', warn: 'warn', bad: 'bad' };

/** A question, the search being typed, a message, or the job's last warning. */
export function messageRow(state: AppState, width: number): Row {
  const { overlay } = state.ui;
  if (overlay?.kind === 'search') return fitRow([run(' /', 'key'), run(lastCells(overlay.text, width - 4)), run('█', 'accent')], width);
  if (overlay?.kind === 'confirm') return fitRow([run(' '), run(cutCells(overlay.question, width - 24), 'warn'), run('  y yes   any key no', 'key')], width);
  if (state.notice !== undefined) return fitRow([run(' '), run(cutCells(state.notice.text.replaceAll('\n', ' '), width - 2), TONES[state.notice.tone])], width);
  const warning = attachedJob(state)?.warnings.at(-1);
  return fitRow(warning === undefined ? [] : [run(' '), run(cutCells(`warning: ${warning}`, width - 2), 'warn')], width);
}

function lastCells(text: string, width: number): string {
  return cellWidth(text) <= width ? text : `…${Array.from(text).slice(-(width - 1)).join('')}`;
}

/** "j move  / search  ? help  q detach": help and detach always, the others as far as they fit. */
export function hintsRow(state: AppState, width: number): Row {
  const overlayHints: Partial<Record<string, string>> = { help: 'type to search  ↑ ↓ move  Enter run  Esc close', search: 'Enter search  Esc cancel', confirm: 'y yes  any key no' };
  const { overlay } = state.ui;
  if (overlay !== undefined) return fitRow([run(' '), run(takeCells(overlayHints[overlay.kind] ?? '', width - 2), 'dim')], width);
  const hinted = COMMANDS.filter(({ hint, when }) => hint !== undefined && (when?.(state) ?? true));
  const parts = hinted.map(({ id, keys, hint = '' }, index) => ({
    rank: id === 'leave' || id === 'help' ? -1 : RANKS[id] ?? index + 10,
    forms: [[run(keys[0] ?? '', 'key'), run(` ${hint}`, 'dim')] satisfies Row],
  }));
  return fitRow([run(' '), ...fitParts([{ rank: 0, forms: [[run('1-8', 'key'), run(' views', 'dim')]] }, ...parts], width - 2)], width);
}

// What changes something comes before what only moves.
const RANKS: Record<string, number> = { 'run-kernel': 1, 'show-job': 1, cancel: 2, 'next-variant': 3, history: 4, faulty: 4, follow: 5, search: 6 };
