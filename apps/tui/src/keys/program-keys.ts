/** The mouse, the help, redrawing, suspending, leaving. */
import type { PROGRAM_COMMANDS } from '../keymap/program-commands.ts';
import type { Store } from '../session/store.ts';
import type { HandlersOf } from './handler.ts';

export const PROGRAM_HANDLERS: Omit<HandlersOf<typeof PROGRAM_COMMANDS>, 'copy' | 'copy-line'> = {
  mouse: ({ store }) => toggleMouse(store),
  help: ({ store }) => store.dispatch({ type: 'overlay', overlay: { kind: 'help', query: '', selected: 0 } }),
  // Ink redraws everything when it gets the terminal back.
  redraw: ({ lendTerminal }) => void lendTerminal(() => Promise.resolve()),
  suspend: ({ suspend }) => suspend(),
  leave: ({ leave }) => leave(),
};

function toggleMouse(store: Store): void {
  store.dispatch({ type: 'toggle', what: 'mouse' });
  store.dispatch({
    type: 'notice',
    text: store.state.ui.mouse
      ? 'Mouse on: the wheel moves, a click selects; your terminal selects text with Shift'
      : 'Mouse off',
    tone: 'info',
  });
}
