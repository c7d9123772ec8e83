/** Searching and following the log. */
import type { AppState } from '../state/app-state.ts';
import { filteredList } from '../state/selectors.ts';
import type { CommandRow } from './command.ts';
import { inMap } from './view-commands.ts';

const hasLog = (state: AppState): boolean => state.attached !== undefined && filteredList(state) === undefined;
const hasQuery = (state: AppState): boolean => hasLog(state) && state.ui.log.query !== '';
const inRun = (state: AppState): boolean => hasLog(state) && state.ui.view === 'run';

export const LOG_COMMANDS = [
  {
    id: 'search',
    keys: ['/'],
    group: 'log',
    help: 'Search the log: text or a regular expression',
    hint: 'search',
    when: hasLog,
  },
  { id: 'next-match', keys: ['n'], group: 'log', help: 'Next match', hint: 'next', when: hasQuery },
  { id: 'previous-match', keys: ['N'], group: 'log', help: 'Previous match', hint: 'previous', when: hasQuery },
  {
    id: 'filter',
    keys: ['&'],
    group: 'log',
    help: 'Only lines that match the search, and back',
    hint: 'filter',
    when: hasQuery,
  },
  {
    id: 'clear-search',
    keys: ['escape'],
    group: 'log',
    help: 'Clear the search',
    when: (state) => hasQuery(state) && !inMap(state),
  },
  {
    id: 'next-error',
    keys: ['E'],
    group: 'log',
    help: 'Next error in the log',
    when: hasLog,
  },
  { id: 'follow', keys: ['f'], group: 'log', help: 'Follow the log, or stop', hint: 'follow', when: hasLog },
  { id: 'wrap', keys: ['w'], group: 'log', help: 'Wrap long lines of the log, or cut them', hint: 'wrap', when: inRun },
  { id: 'log-left', keys: ['<'], group: 'log', help: 'Log to the left, where long lines are cut', when: inRun },
  { id: 'log-right', keys: ['>'], group: 'log', help: 'Log to the right: long lines are cut then', when: inRun },
] as const satisfies readonly CommandRow[];
