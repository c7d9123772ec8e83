/** Commands that search and follow the log. */
import type { AppState } from '../state/app-state.ts';
import { filteredList } from '../state/selectors.ts';
import type { CommandRow } from './command.ts';
import { inMap } from './view-commands.ts';
import { openListing } from '../state/source-place.ts';

const hasLog = (state: AppState): boolean => state.attached !== undefined && filteredList(state) === undefined;
const hasQuery = (state: AppState): boolean => hasLog(state) && state.ui.log.query !== '';
/** Users may press n to make a new kernel, so the message names that key as well. */
const noSearch = ({ ui }: AppState): string =>
  ui.view === 'kernels'
    ? 'N, as a capital letter, makes a kernel of yours from the selected one; / filters the list'
    : 'Nothing is being searched for: / searches the log. For a new kernel: 7, then N';
const NOT_HERE = '1 shows the log; this key works there';
/** Next to a list there may be a job's log, in which these keys do not move. */
const noLog = ({ attached }: AppState): string =>
  attached === undefined ? 'There is no log: no job is shown' : NOT_HERE;
const inRun = (state: AppState): boolean => hasLog(state) && state.ui.view === 'run';

export const LOG_COMMANDS = [
  {
    id: 'search',
    keys: ['/'],
    group: 'log',
    help: 'Search the log: text or a regular expression',
    hint: 'search',
    when: hasLog,
    whyNot: noLog,
  },
  { id: 'next-match', keys: ['n'], group: 'log', help: 'Next match', hint: 'next', when: hasQuery, whyNot: noSearch },
  {
    id: 'previous-match',
    keys: ['N'],
    group: 'log',
    help: 'Previous match',
    hint: 'previous',
    when: hasQuery,
    whyNot: noSearch,
  },
  {
    id: 'filter',
    keys: ['&'],
    group: 'log',
    help: 'Show only lines that match, and back',
    hint: 'filter',
    when: hasQuery,
    whyNot: noSearch,
  },
  {
    id: 'clear-search',
    keys: ['escape'],
    group: 'log',
    help: 'Clear the search',
    when: (state) => hasQuery(state) && !inMap(state) && openListing(state) === undefined,
  },
  {
    id: 'next-error',
    keys: ['E'],
    group: 'log',
    help: 'Next error in the log',
    when: hasLog,
    whyNot: noLog,
  },
  {
    id: 'follow',
    keys: ['f'],
    group: 'log',
    help: 'Follow the log, or stop',
    hint: 'follow',
    when: hasLog,
    whyNot: noLog,
  },
  {
    id: 'wrap',
    keys: ['w'],
    group: 'log',
    help: 'Wrap long lines of the log, or cut them',
    hint: 'wrap',
    when: inRun,
    whyNot: NOT_HERE,
  },
  {
    id: 'log-left',
    keys: ['<'],
    group: 'log',
    help: 'Scroll the log left (long lines are then cut)',
    when: inRun,
    whyNot: NOT_HERE,
  },
  {
    id: 'log-right',
    keys: ['>'],
    group: 'log',
    help: 'Scroll the log right (long lines are then cut)',
    when: inRun,
    whyNot: NOT_HERE,
  },
] as const satisfies readonly CommandRow[];
