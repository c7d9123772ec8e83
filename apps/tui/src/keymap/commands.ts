/** The command table, which defines the meaning of every key. The handlers are in keys/. */
import { didYouMean, entryOf } from '@flashcore/shared/text';
import type { AppState } from '../state/app-state.ts';
import type { CommandRow } from './command.ts';
import { JOB_COMMANDS, MARK_COMMANDS } from './job-commands.ts';
import { LOG_COMMANDS } from './log-commands.ts';
import { LATENCY_COMMANDS, MAP_COMMANDS, RAIL_COMMANDS, SHOW_COMMANDS, VIEW_COMMANDS, inMap } from './view-commands.ts';
import { openListing } from '../state/source-place.ts';

const hasDetails = (state: AppState): boolean =>
  ['correct', 'latency', 'kernels'].includes(state.ui.view) || openListing(state) !== undefined;

const NO_DETAILS = 'Only 2, 3, 7 and the PTX of 4 have details with pages';

function moveHint(state: AppState): string {
  if (state.ui.inRail) return 'next job';
  return inMap(state) ? '' : 'move';
}

/** Commands that move the cursor of a view, or scroll a view without a cursor. */
export const MOVE_COMMANDS = [
  { id: 'up', keys: ['k', 'up'], group: 'moving', help: 'Up; stops following the log' },
  { id: 'down', keys: ['j', 'down'], group: 'moving', help: 'Down', hint: moveHint },
  { id: 'half-page-up', keys: ['ctrl+u'], group: 'moving', help: 'Half a page up' },
  { id: 'half-page-down', keys: ['ctrl+d'], group: 'moving', help: 'Half a page down' },
  { id: 'page-up', keys: ['pageup'], group: 'moving', help: 'A page up' },
  { id: 'page-down', keys: ['pagedown', 'space'], group: 'moving', help: 'A page down' },
  {
    id: 'detail-down',
    keys: ['J'],
    group: 'moving',
    help: 'Next page of the details; in PTX the next place',
    when: hasDetails,
    whyNot: NO_DETAILS,
  },
  {
    id: 'detail-up',
    keys: ['K'],
    group: 'moving',
    help: 'Previous page of the details',
    when: hasDetails,
    whyNot: NO_DETAILS,
  },
  { id: 'first', keys: ['g', 'home'], group: 'moving', help: 'To the beginning' },
  { id: 'last', keys: ['G', 'end'], group: 'moving', help: 'To the end; follows the log again' },
] as const satisfies readonly CommandRow[];

/** Commands that do not depend on the view: copying, the mouse, the help, redrawing, suspending, leaving. */
export const PROGRAM_COMMANDS = [
  { id: 'copy', keys: ['y'], group: 'program', help: 'Copy this view: text, Markdown, JSON or SVG' },
  { id: 'copy-line', keys: ['Y'], group: 'program', help: 'Copy the line under the cursor' },
  {
    id: 'command-log',
    keys: ['@'],
    group: 'program',
    help: 'Command log: fa-tui commands for what keys did',
    hint: ({ commandLog }) => (commandLog.length > 0 ? 'command log' : ''),
  },
  {
    id: 'lab-log',
    keys: ['L'],
    group: 'program',
    help: 'Lab log: what was tried, failures first',
    hint: ({ ui }) => (ui.view === 'jobs' ? 'lab log' : ''),
  },
  { id: 'mouse', keys: ['m'], group: 'program', help: 'Mouse on or off: wheel scrolls, a click selects' },
  {
    id: 'help',
    keys: ['?', ':', 'ctrl+p'],
    group: 'program',
    help: 'All commands: type to search, Enter runs one',
    hint: 'help',
  },
  { id: 'redraw', keys: ['ctrl+l'], group: 'program', help: 'Redraw the screen' },
  { id: 'suspend', keys: ['ctrl+z'], group: 'program', help: 'Suspend fa-tui; fg in the shell brings it back' },
  {
    id: 'leave',
    keys: ['q', 'Q', 'ctrl+c'],
    group: 'program',
    help: 'Quit fa-tui; jobs keep running',
    hint: 'detach',
  },
] as const satisfies readonly CommandRow[];

const TABLE = [
  ...SHOW_COMMANDS,
  ...RAIL_COMMANDS,
  ...MAP_COMMANDS,
  ...MARK_COMMANDS,
  ...VIEW_COMMANDS,
  ...LATENCY_COMMANDS,
  ...MOVE_COMMANDS,
  ...LOG_COMMANDS,
  ...JOB_COMMANDS,
  ...PROGRAM_COMMANDS,
] as const;

export type CommandId = (typeof TABLE)[number]['id'];
export type Command = CommandRow & { readonly id: CommandId };

/** Every command, in the order of the help. */
export const COMMANDS: readonly Command[] = TABLE;

/** The commands with the user's own keys. A key that the user gives to one command is removed from the others. */
export function commandsOf({ customKeys }: Pick<AppState, 'customKeys'>): readonly Command[] {
  const known = customized.get(customKeys);
  if (known !== undefined) return known;
  const taken = new Set(Object.values(customKeys).flat());
  const commands = COMMANDS.map((command): Command => {
    const keys = customKeys[command.id] ?? command.keys.filter((key) => !taken.has(key));
    return { ...command, keys };
  });
  customized.set(customKeys, commands);
  return commands;
}

// A user's keys never change while the program runs, so this is computed once rather than at every key.
const customized = new WeakMap<AppState['customKeys'], readonly Command[]>();

/** The mistake in the user's keys, for a message; undefined if there is none. */
export function customKeysProblem(customKeys: AppState['customKeys']): string | undefined {
  const ids = COMMANDS.map(({ id }): string => id);
  const unknown = Object.keys(customKeys).find((id) => !ids.includes(id));
  return unknown === undefined ? undefined : `keys: there is no command "${unknown}"${didYouMean(unknown, ids)}`;
}

/** The first command of the table that has the key and has an effect now. */
export function commandOf(key: string, state: AppState): Command | undefined {
  return commandsOf(state).find((command) => command.keys.includes(key) && isUsable(command, state));
}

/** True if a command has the key, whether it has an effect now or not. */
export const hasKey = (key: string, state: AppState): boolean =>
  commandsOf(state).some(({ keys }) => keys.includes(key));

// These commands have an effect almost everywhere.
const GENERAL: readonly string[] = ['into-rail', 'next-view', 'previous-view', 'zoom', 'detail-down', 'detail-up'];

/** Commands that have an effect in this view and on this job, but not everywhere. */
export const commandsHere = (state: AppState): string[] =>
  COMMANDS.filter(
    (command) => command.when !== undefined && !GENERAL.includes(command.id) && isUsable(command, state),
  ).map(({ id }) => id);

export const isUsable = ({ when }: Command, state: AppState): boolean => when?.(state) ?? true;

/**
 * The message for a key that has no effect now but would elsewhere; undefined for other keys, and for Escape and Enter.
 */
export function whyNothing(key: string, state: AppState): string | undefined {
  // These keys need no message: users press them to close whatever is open, or in a list that may be empty.
  if (key === 'escape' || key === 'enter') return undefined;
  const [command] = commandsOf(state).filter(({ keys }) => keys.includes(key));
  return command && doesNothing(command, state);
}

export const doesNothing = ({ help, whyNot }: CommandRow, state: AppState): string =>
  (typeof whyNot === 'function' ? whyNot(state) : whyNot) ?? `Not here: ${help}`;

/** Words that users look for and that the help has no room for. */
const OTHER_WORDS: Partial<Record<CommandId, string>> = {
  'show-run': 'why failed finding error output',
  'show-correct': 'why wrong mismatch accuracy',
  'show-latency': 'slow time p50 benchmark',
  'show-profile': 'roofline slow bottleneck bound hottest ncu nsight stalls',
  'show-gates': 'why failed rejected plan targets thresholds',
  'show-jobs': 'queue running night list',
  'into-rail': 'focus pane sidebar',
  'show-host': 'sandbox gpu driver nvcc version',
  'hottest-line': 'slow bottleneck',
  'mark-job': 'select',
  'mark-all': 'select',
  'next-finding': 'why error',
  'open-notes': 'documentation document write',
  zoom: 'fullscreen maximize',
  instructions: 'assembly asm disassembly',
  'run-kernel': 'form sanitizer memcheck racecheck sanitize shape seeds default defaults start',
  'new-kernel': 'create fork clone template',
  rerun: 'repeat retry',
  'change-form': 'sanitizer memcheck racecheck sanitize shape seeds options default defaults repeat',
  cancel: 'stop kill abort delete remove',
  'cancel-waiting': 'stop kill abort delete remove queue',
  pin: 'baseline',
  compare: 'difference against versus',
  accept: 'promote merge approve',
  reject: 'delete remove discard',
  undo: 'revert restore',
  'watch-folder': 'live',
  'sort-list': 'order',
  search: 'find grep',
  'filter-list': 'find failures',
  history: 'night past results ranking best ended',
  follow: 'tail',
  'edit-source': 'editor vim code',
  copy: 'clipboard yank export save',
  'command-log': 'shell script',
  'lab-log': 'night report history results while away',
  help: 'palette shortcuts bindings',
  redraw: 'refresh',
  suspend: 'background shell',
  leave: 'exit close detach',
};

/** The words of a text: whole, and without what separates them. */
const wordsOf = (text: string): string[] => [...text.split(/\s+/), ...text.split(/[\s\-.,:;()"']+/)];

const isIn = (known: readonly string[], wanted: readonly string[]): boolean =>
  wanted.every((word) => known.some((each) => each.startsWith(word)));

/**
 * Commands whose id, keys, help or other words have words that begin with those of the query. First come those with
 * exactly that key, then those whose name or help begins with the query, then those that apply where the help was
 * opened. Without a query, those that apply only elsewhere are last.
 */
export function findCommands(
  query: string,
  { here = [], ...state }: Pick<AppState, 'customKeys'> & { here?: readonly string[] } = { customKeys: {} },
): Command[] {
  const words = query.toLowerCase().split(' ').filter(Boolean);
  const found = commandsOf(state).filter(({ id, keys, help }) =>
    // The beginnings of words only: "rate" would otherwise find "separate".
    isIn(wordsOf(`${id} ${keys.join(' ')} ${help} ${entryOf(OTHER_WORDS, id) ?? ''}`.toLowerCase()), words),
  );
  const typed = query.toLowerCase();
  const rank = ({ id, keys, help, when }: Command): number => {
    if (keys.includes(query)) return 0;
    if (query !== '' && id.startsWith(typed)) return 1;
    if (query !== '' && help.toLowerCase().startsWith(typed)) return 2;
    if (here.includes(id)) return 3;
    // Keys of other views come last, because several of them are the same key.
    return when === undefined || GENERAL.includes(id) || query !== '' ? 4 : 5;
  };
  return found.toSorted((a, b) => rank(a) - rank(b));
}
