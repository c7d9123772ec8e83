/** Keys that decide about a result: opening the dialog, and the keys within it. */
import { entryOf } from '@flashcore/shared/text';
import type { AppState, Overlay } from '../state/app-state.ts';
import { namedJob } from '../present/words.ts';
import { CHOICES, refusalOf, type Choice } from '../state/decision.ts';
import { chosenJob } from '../state/chosen.ts';
import { logJobCommand } from './command-log-keys.ts';
import type { KeyContext } from './handler.ts';
import { editedLine } from '../state/input-line.ts';

const PAGE_ROWS = 10;
// The runner's limit on a note.
const MOST_NOTE_CHARACTERS = 4096;

/** Opens the dialog about the marked or shown job. If the decision is refused, shows the reason and opens nothing. */
export async function openDecision({ store, session }: KeyContext, choice: Choice): Promise<void> {
  const job = chosenJob(store.state);
  if (job === undefined) return;
  const { result } = entryOf(store.state.views, job) ?? {};
  // The notes may have been written a moment ago.
  if (result === undefined || result.acceptability?.notesWanted) await session.prepareDecision(job);
  const view = entryOf(store.state.views, job);
  if (view === undefined) return;
  const refusal = refusalOf(store.state, view, choice);
  if (refusal === undefined)
    store.dispatch({ type: 'overlay', overlay: { kind: 'decide', job, choice, note: '', top: 0 } });
  else {
    const text = `Cannot ${choice} ${namedJob(view)}: ${refusal}`;
    // The dialog about another choice says by itself whether this one is possible.
    const until = (state: AppState): boolean =>
      state.ui.overlay?.kind === 'decide' || refusalOf(state, entryOf(state.views, job) ?? view, choice) !== refusal;
    store.dispatch({ type: 'notice', text, tone: 'warn', about: 'view', until });
  }
}

type Dialog = Extract<Overlay, { kind: 'decide' }>;

/** Letters go into the note; arrows change the choice and scroll. */
export function pressInDecision(key: string, dialog: Dialog, context: KeyContext): void {
  const { store } = context;
  const show = (change: Partial<Dialog>): void =>
    store.dispatch({ type: 'overlay', overlay: { ...dialog, ...change } });
  const scroll = (by: number): void => show({ top: Math.max(0, dialog.top + by) });
  const turn = (by: number): void =>
    show({ choice: CHOICES[(CHOICES.indexOf(dialog.choice) + by + CHOICES.length) % CHOICES.length] ?? 'accept' });
  switch (key) {
    case 'escape':
      return store.dispatch({ type: 'overlay', overlay: undefined });
    case 'enter':
      return void decide(dialog, context);
    case 'right':
    case 'tab':
      return turn(1);
    case 'left':
    case 'shift+tab':
      return turn(-1);
    case 'down':
      return scroll(1);
    case 'up':
      return scroll(-1);
    case 'pagedown':
      return scroll(PAGE_ROWS);
    case 'pageup':
      return scroll(-PAGE_ROWS);
  }
  const { text: note, after = 0 } = editedLine({ text: dialog.note, after: dialog.after ?? 0 }, key);
  if (note.length <= MOST_NOTE_CHARACTERS) show({ note, after });
}

/** After a refused decision the dialog stays open with the typed note. */
async function decide({ job, choice, note }: Dialog, { store, session }: KeyContext): Promise<void> {
  const view = entryOf(store.state.views, job);
  if (view === undefined || refusalOf(store.state, view, choice) !== undefined) return;
  if (!(await session.decide(choice, job, note))) return;
  logJobCommand(store, choice, job, ...(note === '' ? [] : ['--note', note]));
  store.dispatch({ type: 'overlay', overlay: undefined });
}
