/** The effects of the wheel and of a click. */
import { hitOf } from '../screens/hit.ts';
import type { MouseEvent } from '../terminal/mouse.ts';
import type { KeyContext } from './handler.ts';
import { move } from './move-keys.ts';

const WHEEL_LINES = 3;

/**
 * The wheel moves like j and k. A click shows the view under it and moves the cursor there. Prompts ignore the mouse.
 */
export function pressMouse(event: MouseEvent, { store }: Pick<KeyContext, 'store'>): void {
  if (store.state.ui.overlay !== undefined) return;
  if (event.kind === 'wheel') return move(store, event.by * WHEEL_LINES);
  const hit = hitOf({ state: store.state, log: store.log, search: store.search }, event);
  if (hit === undefined) return;
  if (hit.view !== store.state.ui.view) store.dispatch({ type: 'show', view: hit.view });
  if (hit.by !== 0) store.dispatch({ type: 'move', by: hit.by });
}
