/** The lab log over the view: reading it, and its keys. */
import { entryOf, errorText } from '@flashcore/shared/text';
import { markdownOf } from '../present/plain/markdown-painter.ts';
import { labLogScroll } from '../screens/chrome/lab-log-pane.ts';
import type { Overlay } from '../state/app-state.ts';
import { labLogTimes } from '../state/since-left.ts';
import { tellCopied } from './copy-keys.ts';
import type { KeyContext } from './handler.ts';

type LabLog = Extract<Overlay, { kind: 'lab-log' }>;

/** Shows the jobs since the user last left, if one has ended since; otherwise all. */
export const openLabLog = (context: KeyContext): void =>
  void readLabLog(labLogTimes(context.store.state)[0] ?? 0, context);

async function readLabLog(since: number, { store, labLog }: KeyContext): Promise<void> {
  if (labLog === undefined)
    return store.dispatch({ type: 'notice', text: 'A replay has no lab log: it has one job', tone: 'warn' });
  const opened: LabLog = { kind: 'lab-log', since, top: 0 };
  store.dispatch({ type: 'overlay', overlay: opened });
  // Escape closes the log while it is read, and another dialog may be open by then.
  const isOpen = (): boolean => store.state.ui.overlay === opened;
  try {
    const blocks = await labLog(since);
    if (isOpen()) store.dispatch({ type: 'overlay', overlay: { ...opened, blocks } });
  } catch (error) {
    if (isOpen()) store.dispatch({ type: 'overlay', overlay: undefined });
    store.dispatch({ type: 'notice', text: `Could not read the lab log: ${errorText(error)}`, tone: 'bad' });
  }
}

const STEPS: Readonly<Record<string, number>> = { up: -1, k: -1, down: 1, j: 1 };
/** In pages. */
const PAGES: Readonly<Record<string, number>> = {
  ...{ pageup: -1, pagedown: 1, space: 1 },
  ...{ 'ctrl+u': -0.5, 'ctrl+d': 0.5 },
  ...{ home: -Infinity, g: -Infinity, end: Infinity, G: Infinity },
};

export function pressInLabLog(key: string, log: LabLog, context: KeyContext): void {
  const { store } = context;
  if (key === 'escape' || key === 'q' || key === 'L') return store.dispatch({ type: 'overlay', overlay: undefined });
  if (key === 't') return turn(log, context);
  if (log.blocks === undefined) return;
  if (key === 'y') return tellCopied(context, markdownOf(log.blocks), 'lab-log.md');
  const { last, page } = labLogScroll(store.state, log);
  const step = entryOf(STEPS, key) ?? Math.trunc((entryOf(PAGES, key) ?? 0) * page);
  store.dispatch({ type: 'overlay', overlay: { ...log, top: Math.max(0, Math.min(last, log.top + step)) } });
}

/** Turns from the jobs since the user left to all jobs, and back. */
function turn({ since }: LabLog, context: KeyContext): void {
  const times = labLogTimes(context.store.state);
  if (times.length > 1) void readLabLog(times.find((time) => time !== since) ?? 0, context);
}
