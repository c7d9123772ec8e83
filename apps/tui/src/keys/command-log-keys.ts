/** The command log: recording what keys did, and the keys of its dialog. */
import { entryOf, shellWord } from '@flashcore/shared/text';
import { shortName } from '../present/words.ts';
import type { Overlay } from '../state/app-state.ts';
import type { Store } from '../session/store.ts';
import { tellCopied } from './copy-keys.ts';
import type { KeyContext } from './handler.ts';

/** Records the fa-tui command with these arguments. */
export const logCommand = (store: Store, ...words: readonly string[]): void =>
  store.dispatch({ type: 'command', text: ['fa-tui', ...words].map(shellWord).join(' ') });

/** Records a command about a job. The recorded command contains only the start of the job's name. */
export const logJobCommand = (store: Store, name: string, job: string, ...options: readonly string[]): void =>
  logCommand(store, name, shortName(job), ...options);

export const openCommandLog = ({ store }: KeyContext): void =>
  store.dispatch({ type: 'overlay', overlay: { kind: 'commands', selected: store.state.commandLog.length - 1 } });

const STEPS: Readonly<Record<string, number>> = { up: -1, k: -1, down: 1, j: 1, pageup: -10, pagedown: 10 };

/** Handles a key in the dialog. Keys that do not move the selection close the dialog. */
export function pressInCommandLog(
  key: string,
  { selected }: Extract<Overlay, { kind: 'commands' }>,
  context: KeyContext,
): void {
  const { store } = context;
  const { commandLog } = store.state;
  const step = entryOf(STEPS, key);
  const moved = Math.max(0, Math.min(commandLog.length - 1, selected + (step ?? 0)));
  if (step !== undefined) return store.dispatch({ type: 'overlay', overlay: { kind: 'commands', selected: moved } });
  store.dispatch({ type: 'overlay', overlay: undefined });
  const text = commandLog[selected]?.text;
  if ((key === 'y' || key === 'enter') && text !== undefined) tellCopied(context, `${text}\n`, 'command.txt');
}
