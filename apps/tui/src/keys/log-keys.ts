/** Searching and following the log. */
import type { LOG_COMMANDS } from '../keymap/log-commands.ts';
import type { Store } from '../session/store.ts';
import type { HandlersOf } from './handler.ts';

const SIDEWAYS_CELLS = 20;

export const LOG_HANDLERS: HandlersOf<typeof LOG_COMMANDS> = {
  search: ({ store }) =>
    store.dispatch({ type: 'overlay', overlay: { kind: 'search', text: '', before: store.state.ui.log } }),
  'next-match': ({ store }) => showMatch(store, 1),
  'previous-match': ({ store }) => showMatch(store, -1),
  filter: ({ store }) => store.dispatch({ type: 'toggle', what: 'filter' }),
  'clear-search': ({ store }) => store.dispatch({ type: 'search', query: '' }),
  follow: ({ store }) =>
    store.dispatch({ type: 'log-position', follow: !store.state.ui.log.follow, top: store.log.start }),
  wrap: ({ store }) => store.dispatch({ type: 'toggle', what: 'wrap' }),
  'log-left': ({ store }) => store.dispatch({ type: 'log-sideways', by: -SIDEWAYS_CELLS }),
  'log-right': ({ store }) => store.dispatch({ type: 'log-sideways', by: SIDEWAYS_CELLS }),
  'next-error': ({ store }) => showError(store),
};

/** Shows the match nearest to the visible lines; while following, nearest to the end of the log. */
function showMatch(store: Store, direction: 1 | -1): void {
  const { log } = store.state.ui;
  const line = store.search?.neighbour(log.follow ? store.log.end : log.top, direction);
  if (line === undefined)
    return store.dispatch({ type: 'notice', text: `No line of the log has "${log.query}"`, tone: 'warn' });
  store.dispatch({ type: 'log-position', follow: false, top: line });
}

/** Shows the next error after the visible lines, wrapping around to the first. */
function showError(store: Store): void {
  const { follow, top } = store.state.ui.log;
  const { log } = store;
  const isError = (line: number): boolean => log.at(line)?.tone === 'bad';
  const from = follow ? log.start : top + 1;
  for (let line = from; line < log.end; line++) if (isError(line)) return showLine(store, line);
  for (let line = log.start; line < from; line++) if (isError(line)) return showLine(store, line);
  store.dispatch({ type: 'notice', text: 'No line of the log tells of an error', tone: 'info' });
}

const showLine = (store: Store, top: number): void => store.dispatch({ type: 'log-position', follow: false, top });
