/** The last row: the keys that currently have an effect. */
import { takeCells } from '../../present/cells/cell-text.ts';
import { fitRow, run, type Row } from '../../present/cells/row.ts';
import { fitParts } from '../../present/cells/table.ts';
import { commandsOf, isUsable } from '../../keymap/commands.ts';
import type { AppState } from '../../state/app-state.ts';
import { isTyped } from '../../state/form-field.ts';
import { FAILURES_WORD, filteredList } from '../../state/selectors.ts';
import { labLogTimes } from '../../state/since-left.ts';
import { messageRows } from './message.ts';

/** Messages, and the row of hints. */
export const footerRows = (state: AppState, columns: number): Row[] => [
  ...messageRows(state, columns),
  hintsRow(state, columns),
];

/** Hints such as "j move  / search  ? help  q detach". Help and detach are always shown, the others if they fit. */
function hintsRow(state: AppState, width: number): Row {
  const overlayHints: Partial<Record<string, string>> = {
    help: 'type to search  ↑ ↓ move  Enter run  Esc close',
    search: 'Enter search  Esc cancel',
    form: formHint(state),
    decide: 'type a note  ← → accept, reject, undo  ↑ ↓ scroll  Enter decides  Esc closes',
    commands: '↑ ↓ move  y copy  Esc close',
    'lab-log': `↑ ↓ move  g G ends  y copy  ${labLogChoice(state)}Esc close`,
    copy: 't text  m Markdown  j JSON  s SVG picture  Esc cancel',
    'list-filter': `Enter keep  ctrl+u clear  Esc show all${filteredList(state) === 'kernels' ? '' : `  "${FAILURES_WORD}" shows only those`}`,
    'new-kernel': 'Enter makes the folder, here or at a path  ctrl+u clear  Esc cancel',
    // The question is followed by its answers.
    confirm: '',
  };
  const { overlay } = state.ui;
  if (overlay?.kind === 'watch-folder') {
    const quick = overlay.quick ? 'on' : 'off';
    return fitRow(
      [run(` Enter watch  Tab complete  ctrl+t smallest case first: ${quick}  Esc cancel  ctrl+u clear`, 'dim')],
      width,
    );
  }
  if (overlay !== undefined)
    return fitRow([run(' '), run(takeCells(overlayHints[overlay.kind] ?? '', width - 2), 'dim')], width);
  const hinted = commandsOf(state)
    .filter((command) => isUsable(command, state))
    .flatMap(({ hint = '', ...command }) => {
      const text = typeof hint === 'string' ? hint : hint(state);
      return text === '' ? [] : [{ ...command, hint: text }];
    });
  const inLog = state.ui.view === 'run';
  const parts = hinted
    .filter(({ group }) => group !== 'log' || inLog)
    .map(({ id, keys, hint }, index) => ({
      rank: id === 'leave' || id === 'help' ? -1 : (RANKS[id] ?? index + 10),
      forms: [[run(keys[0] ?? '', 'key'), run(` ${hint}`, 'dim')] satisfies Row],
    }));
  return fitRow(
    [run(' '), ...fitParts([{ rank: 0, forms: [[run('1-8', 'key'), run(' views', 'dim')]] }, ...parts], width - 2)],
    width,
  );
}

function labLogChoice(state: AppState): string {
  const { overlay } = state.ui;
  if (overlay?.kind !== 'lab-log' || labLogTimes(state).length < 2) return '';
  return `t ${overlay.since === 0 ? 'since you left' : 'all jobs'}  `;
}

/** The keys of the selected field: ← and → move the cursor in a text field, and choose a value in all others. */
function formHint({ ui: { overlay } }: AppState): string {
  const field = overlay?.kind === 'form' ? overlay.form.fields[overlay.form.selected] : undefined;
  const isText = field !== undefined && isTyped(field);
  const keys = isText ? '← → cursor  ctrl+u clear' : `← → value${field?.typed === undefined ? '' : '  type a name'}`;
  return `↑ ↓ field  ${keys}  Enter run  Esc close`;
}

// Keys that change something come before keys that only move.
const RANKS: Record<string, number> = {
  // A filtered list must say how to get the whole list back.
  'clear-filter': 1,
  'hottest-line': 1,
  instructions: 1,
  'run-kernel': 1,
  'run-variant': 1,
  'show-job': 1,
  'into-map': 1,
  'leave-map': 1,
  'map-left': 1,
  'next-comparison-page': 1,
  accept: 2,
  compare: 2,
  cancel: 2,
  'next-finding': 2,
  // Nothing else on the screen says that rows can be marked.
  'mark-job': 3,
  'older-job': 6,
  'new-kernel': 2,
  pin: 3,
  'sort-list': 2,
  'next-variant': 3,
  history: 4,
  problems: 4,
  faulty: 4,
  follow: 5,
  search: 6,
  'filter-list': 2,
  rerun: 7,
  'edit-source': 3,
};
