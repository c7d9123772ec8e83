/** Searching and following the log. */
import type { AppState } from '../state/app-state.ts';
import { filteredList } from '../state/selectors.ts';
import type { Store } from '../state/store.ts';
import type { Command } from './command.ts';
import { inMap } from './view-commands.ts';

const hasLog = (state: AppState): boolean => state.attached !== undefined && filteredList(state) === undefined;
const hasQuery = (state: AppState): boolean => hasLog(state) && state.ui.log.query !== '';
const inRun = (state: AppState): boolean => hasLog(state) && state.ui.view === 'run';

export const LOG_COMMANDS: Command[] = [
  {
    id: 'search',
    keys: ['/'],
    group: 'log',
    help: 'Search the log; an upper-case letter makes case count',
    hint: 'search',
    when: hasLog,
    run: ({ store }) => store.dispatch({ type: 'overlay', overlay: { kind: 'search', text: '' } }),
  },
  {
    id: 'next-match',
    keys: ['n'],
    group: 'log',
    help: 'Next match',
    hint: 'next',
    when: hasQuery,
    run: ({ store }) => showMatch(store, 1),
  },
  {
    id: 'previous-match',
    keys: ['N'],
    group: 'log',
    help: 'Previous match',
    hint: 'previous',
    when: hasQuery,
    run: ({ store }) => showMatch(store, -1),
  },
  {
    id: 'filter',
    keys: ['&'],
    group: 'log',
    help: 'Only lines that match the search, and back',
    hint: 'filter',
    when: hasQuery,
    run: ({ store }) => store.dispatch({ type: 'toggle', what: 'filter' }),
  },
  {
    id: 'clear-search',
    keys: ['escape'],
    group: 'log',
    help: 'Clear the search',
    when: (state) => hasQuery(state) && !inMap(state),
    run: ({ store }) => store.dispatch({ type: 'search', query: '' }),
  },
  {
    id: 'follow',
    keys: ['f'],
    group: 'log',
    help: 'Follow the log, or stop',
    hint: 'follow',
    when: hasLog,
    run: ({ store }) =>
      store.dispatch({ type: 'log-position', follow: !store.state.ui.log.follow, top: store.log.start }),
  },
  {
    id: 'wrap',
    keys: ['w'],
    group: 'log',
    help: 'Wrap long lines of the log, or cut them',
    hint: 'wrap',
    when: inRun,
    run: ({ store }) => store.dispatch({ type: 'toggle', what: 'wrap' }),
  },
];

/** The match nearest to what is on the screen, from the end of the log when following. */
function showMatch(store: Store, direction: 1 | -1): void {
  const { log } = store.state.ui;
  const line = store.search?.neighbour(log.follow ? store.log.end : log.top, direction);
  if (line === undefined)
    return store.dispatch({ type: 'notice', text: `No line of the log has "${log.query}"`, tone: 'warn' });
  store.dispatch({ type: 'log-position', follow: false, top: line });
}
