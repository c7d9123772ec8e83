/** Searching and following the log. */
import type { LOG_COMMANDS } from '../keymap/log-commands.ts';
import type { Store } from '../session/store.ts';
import type { HandlersOf } from './handler.ts';

export const LOG_HANDLERS: HandlersOf<typeof LOG_COMMANDS> = {
  search: ({ store }) => store.dispatch({ type: 'overlay', overlay: { kind: 'search', text: '' } }),
  'next-match': ({ store }) => showMatch(store, 1),
  'previous-match': ({ store }) => showMatch(store, -1),
  filter: ({ store }) => store.dispatch({ type: 'toggle', what: 'filter' }),
  'clear-search': ({ store }) => store.dispatch({ type: 'search', query: '' }),
  follow: ({ store }) =>
    store.dispatch({ type: 'log-position', follow: !store.state.ui.log.follow, top: store.log.start }),
  wrap: ({ store }) => store.dispatch({ type: 'toggle', what: 'wrap' }),
};

/** The match nearest to what is on the screen, from the end of the log when following. */
function showMatch(store: Store, direction: 1 | -1): void {
  const { log } = store.state.ui;
  const line = store.search?.neighbour(log.follow ? store.log.end : log.top, direction);
  if (line === undefined)
    return store.dispatch({ type: 'notice', text: `No line of the log has "${log.query}"`, tone: 'warn' });
  store.dispatch({ type: 'log-position', follow: false, top: line });
}
