/** Passes a pressed key to the open prompt or, without a prompt, executes its command. */
import { randomUUID } from 'node:crypto';
import path from 'node:path';
import type { Key } from 'ink';
import { errorText } from '@flashcore/shared/text';
import type { Store } from '../session/store.ts';
import type { AppState, Notice, Overlay } from '../state/app-state.ts';
import {
  commandOf,
  commandsHere,
  doesNothing,
  findCommands,
  isUsable,
  whyNothing,
  type Command,
  type CommandId,
  type PROGRAM_COMMANDS,
  hasKey,
} from '../keymap/commands.ts';
import { pressInCopy, COPY_HANDLERS } from './copy-keys.ts';
import { logCommand, logJobCommand, openCommandLog, pressInCommandLog } from './command-log-keys.ts';
import { pressInDecision } from './decision-keys.ts';
import { openLabLog, pressInLabLog } from './lab-log-keys.ts';
import { pressInForm } from './form-keys.ts';
import type { KeyContext, Handler, HandlersOf } from './handler.ts';
import { JOB_HANDLERS, MARK_HANDLERS } from './job-keys.ts';
import { keyNames } from './key-name.ts';
import { editedLine } from '../state/input-line.ts';
import { inKernels } from '../state/chosen.ts';
import { kernelKey } from '../state/listed-kernel.ts';
import { WATCH_LABEL, selectedKernel } from '../state/selectors.ts';
import { completeFolder, expandHome } from '../watch/complete-path.ts';
import { isFolder } from '../watch/follow-source.ts';
import { MOVE_HANDLERS } from './move-keys.ts';
import { editSource } from './source-keys.ts';
import { LATENCY_HANDLERS, MAP_HANDLERS, RAIL_HANDLERS, SHOW_HANDLERS, VIEW_HANDLERS } from './view-keys.ts';
import type { LOG_COMMANDS } from '../keymap/log-commands.ts';

/** The handlers of mouse, help, redrawing, suspending and leaving. */
const PROGRAM_HANDLERS: Omit<HandlersOf<typeof PROGRAM_COMMANDS>, 'copy' | 'copy-line'> = {
  'command-log': openCommandLog,
  'lab-log': openLabLog,
  mouse: ({ store }) => toggleMouse(store),
  help: ({ store }) =>
    store.dispatch({
      type: 'overlay',
      overlay: { kind: 'help', query: '', selected: 0, here: commandsHere(store.state) },
    }),
  // Lends the terminal for no time, because Ink redraws everything when it gets the terminal back.
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

const SIDEWAYS_CELLS = 20;

const LOG_HANDLERS: HandlersOf<typeof LOG_COMMANDS> = {
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

/** A handler for each command of the table. */
const HANDLERS: Record<CommandId, Handler> = {
  ...SHOW_HANDLERS,
  ...RAIL_HANDLERS,
  ...MAP_HANDLERS,
  ...VIEW_HANDLERS,
  ...LATENCY_HANDLERS,
  ...MOVE_HANDLERS,
  ...LOG_HANDLERS,
  ...JOB_HANDLERS,
  ...MARK_HANDLERS,
  'edit-source': (context) => void editSource(context),
  ...COPY_HANDLERS,
  ...PROGRAM_HANDLERS,
};

/** The names of the keys in one report of Ink, which may hold several; see keyNames(). */
export const pressedKeys = (input: string, key: Key, { store }: KeyContext): string[] =>
  keyNames(input, key, (name) => hasKey(name, store.state));

/** Executes the command that `key` has now, or shows why it has none. Unknown keys do nothing. */
export function pressKey(key: string, context: KeyContext): void {
  // Ctrl-C ends the innermost thing, as in a shell: an open prompt, and without one the program.
  if (key === 'ctrl+c') return context.store.state.ui.overlay ? pressKey('escape', context) : context.leave();
  // These keys work in every prompt, as they do in a shell.
  const always = key.startsWith('ctrl+') ? commandOf(key, context.store.state)?.id : undefined;
  if (always === 'suspend' || always === 'redraw') return HANDLERS[always](context);
  const { overlay } = context.store.state.ui;
  if (overlay === undefined) {
    context.store.dispatch({ type: 'key' });
    const command = commandOf(key, context.store.state);
    if (command !== undefined) HANDLERS[command.id](context);
    else tellNothing(whyNothing(key, context.store.state), context, (state) => commandOf(key, state) !== undefined);
    return;
  }
  if (overlay.kind === 'help') return pressInHelp(key, overlay, context);
  if (overlay.kind === 'list-filter') return pressInListFilter(key, overlay, context);
  if (overlay.kind === 'form') return pressInForm(key, overlay, context);
  if (overlay.kind === 'decide') return pressInDecision(key, overlay, context);
  if (overlay.kind === 'copy') return pressInCopy(key, context);
  if (overlay.kind === 'commands') return pressInCommandLog(key, overlay, context);
  if (overlay.kind === 'lab-log') return pressInLabLog(key, overlay, context);
  if (overlay.kind === 'new-kernel') return pressInNewKernel(key, overlay, context);
  if (overlay.kind === 'watch-folder') return pressInWatchFolder(key, overlay, context);
  if (overlay.kind === 'search') return pressInSearch(key, overlay, context);
  return pressInConfirm(key, overlay, context);
}

const MOST_PASTED_CHARACTERS = 4_096;

/** Types pasted text into the open prompt as one line. Without a prompt the text is refused and never run as keys. */
export function pastePlainText(text: string, context: KeyContext): void {
  const { store } = context;
  if (!takesText(store.state.ui.overlay))
    return store.dispatch({
      type: 'notice',
      text: 'Ignored the pasted text: no prompt is open (/ searches, : finds a command, W watches a folder)',
      tone: 'warn',
      until: ({ ui }) => ui.overlay !== undefined,
    });
  const line = text
    .slice(0, MOST_PASTED_CHARACTERS)
    .replaceAll(/[\p{Cc}\s]+/gu, ' ')
    .trim();
  for (const character of line) pressKey(character === ' ' ? 'space' : character, context);
}

function takesText(overlay: Overlay | undefined): boolean {
  if (overlay === undefined || ['confirm', 'copy', 'commands', 'lab-log'].includes(overlay.kind)) return false;
  return overlay.kind !== 'form' || overlay.form.fields[overlay.form.selected]?.typed !== undefined;
}

type OverlayOf<Kind extends Overlay['kind']> = Extract<Overlay, { kind: Kind }>;

function pressInHelp(key: string, overlay: OverlayOf<'help'>, context: KeyContext): void {
  const { store } = context;
  const found = findCommands(overlay.query, { ...store.state, here: overlay.here });
  const open = (change: Partial<OverlayOf<'help'>>): void =>
    store.dispatch({ type: 'overlay', overlay: { ...overlay, ...change } });
  const select = (selected: number): void => open({ selected: Math.max(0, Math.min(found.length - 1, selected)) });
  switch (key) {
    case 'escape':
      return close(context);
    case 'up':
      return select(overlay.selected - 1);
    case 'down':
      return select(overlay.selected + 1);
    case 'pageup':
      return select(overlay.selected - helpPage(context));
    case 'pagedown':
      return select(overlay.selected + helpPage(context));
    case 'home':
      return select(0);
    case 'end':
      return select(found.length - 1);
    case 'enter':
      return runFound(found[overlay.selected], context);
    default: {
      const line = { text: overlay.query, after: overlay.after ?? 0 };
      const { text: query, after = 0 } = editedLine(line, key);
      // A key that only moves the cursor keeps the selected command.
      open({ query, after, ...(query !== overlay.query && { selected: 0 }) });
    }
  }
}

// Rows of the help above and below its list: frame, tabs, search and hints.
const HELP_CHROME_ROWS = 10;

const helpPage = ({ store }: KeyContext): number => Math.max(1, store.state.ui.rows - HELP_CHROME_ROWS);

function runFound(command: Command | undefined, context: KeyContext): void {
  if (command === undefined) return;
  close(context);
  if (isUsable(command, context.store.state)) return HANDLERS[command.id](context);
  tellNothing(doesNothing(command, context.store.state), context, (state) => isUsable(command, state));
}

/** Says why a key does nothing, until it would do something. */
function tellNothing(text: string | undefined, { store }: KeyContext, until?: Notice['until']): void {
  if (text !== undefined) store.dispatch({ type: 'notice', text, tone: 'warn', about: 'view', until });
}

/**
 * Handles a key in the search of the log. The log moves to the typed text. Enter keeps the search; Escape returns to
 * the position before.
 */
function pressInSearch(key: string, { text, after, before }: OverlayOf<'search'>, { store }: KeyContext): void {
  if (key === 'escape') {
    store.dispatch({ type: 'search', query: before.query });
    return store.dispatch({ type: 'log-position', follow: before.follow, top: before.top });
  }
  if (key === 'enter') return finishSearch(text, store);
  const line = editedLine({ text, after: after ?? 0 }, key);
  const { text: typed } = line;
  store.dispatch({ type: 'search', query: typed });
  const last = typed === '' ? undefined : store.search?.neighbor(store.log.end, -1);
  if (last === undefined) store.dispatch({ type: 'log-position', follow: before.follow, top: before.top });
  else showLine(store, last);
  store.dispatch({ type: 'overlay', overlay: { kind: 'search', ...line, before } });
}

/**
 * Handles a key in the filter of a list. The typed text filters the list. Enter keeps the filter; Escape removes it.
 * The first typed character replaces a filter from before; Backspace edits it.
 */
function pressInListFilter(
  key: string,
  { list, text, after = 0, untouched = false }: OverlayOf<'list-filter'>,
  { store }: KeyContext,
): void {
  if (key === 'enter') return store.dispatch({ type: 'list-filter', list, text });
  if (key === 'escape') return store.dispatch({ type: 'list-filter', list, text: '' });
  const fresh = editedLine({ text: '' }, key);
  const line = untouched && fresh.text !== '' ? fresh : editedLine({ text, after }, key);
  store.dispatch({ type: 'list-filter', list, text: line.text });
  store.dispatch({ type: 'overlay', overlay: { kind: 'list-filter', list, ...line } });
}

function pressInNewKernel(key: string, overlay: OverlayOf<'new-kernel'>, context: KeyContext): void {
  if (key === 'escape') return close(context);
  // A second Enter would find the folder that the first one makes.
  if (overlay.isMaking === true) return;
  if (key === 'enter') return overlay.text === '' ? undefined : void makeKernel(overlay, context);
  const { kind, from, text, after = 0 } = overlay;
  context.store.dispatch({ type: 'overlay', overlay: { kind, from, ...editedLine({ text, after }, key) } });
}

/** Makes the copy and moves the cursor of view 7 to it. The prompt stays open if that fails, to correct the name. */
async function makeKernel({ kind, text, from }: OverlayOf<'new-kernel'>, context: KeyContext): Promise<void> {
  const { store, session, newKernel } = context;
  if (newKernel === undefined) {
    close(context);
    return tellNothing('A replay makes no kernels', context);
  }
  const making = { kind, text, from, isMaking: true };
  store.dispatch({ type: 'overlay', overlay: making });
  // Escape closes the prompt while the folder is made, and another dialog may be open by then.
  const isOpen = (): boolean => store.state.ui.overlay === making;
  try {
    const folder = await newKernel(expandHome(text), from);
    logCommand(store, 'new', text, '--from', from);
    await session.lists.kernels();
    if (isOpen()) close(context);
    if (store.state.ui.kernelList !== 'kernels') store.dispatch({ type: 'kernel-list', list: 'kernels' });
    store.dispatch({ type: 'kernel-chosen', key: folder });
    const made = `${folder} is your copy of ${path.basename(from)}`;
    const isChosen = (state: AppState): boolean => {
      const kernel = inKernels(state) ? selectedKernel(state) : undefined;
      return kernel !== undefined && kernelKey(kernel) === folder;
    };
    // The keys act on the row under the cursor, so they are offered only while that is the copy.
    const wasChosen = isChosen(store.state);
    const next = wasChosen
      ? 'e edits it, Enter runs it, W runs every save'
      : `7 does not list it yet, fa-tui run ${folder} runs it`;
    const until = (state: AppState): boolean => isChosen(state) !== wasChosen;
    store.dispatch({ type: 'notice', text: `${made}: ${next}`, tone: 'info', until });
  } catch (error) {
    const problem = errorText(error);
    if (isOpen()) store.dispatch({ type: 'overlay', overlay: { kind, text, from, problem } });
    else store.dispatch({ type: 'notice', text: problem, tone: 'warn' });
  }
}

function pressInWatchFolder(key: string, overlay: OverlayOf<'watch-folder'>, context: KeyContext): void {
  const { store } = context;
  const { text, after = 0, quick } = overlay;
  const open = (change: Partial<OverlayOf<'watch-folder'>>): void =>
    store.dispatch({ type: 'overlay', overlay: { ...overlay, names: [], problem: '', ...change } });
  switch (key) {
    case 'escape':
      return close(context);
    case 'enter':
      return text === '' || isFolder(typedFolder(text))
        ? watchTyped(overlay, context)
        : open({ problem: 'no such folder' });
    case 'tab':
      return open({ ...completeFolder(text), after: 0 });
    case 'ctrl+t':
      return open({ quick: !quick });
    default:
      return open(editedLine({ text, after }, key));
  }
}

const typedFolder = (text: string): string => path.resolve(expandHome(text));

function watchTyped({ text, quick }: OverlayOf<'watch-folder'>, context: KeyContext): void {
  close(context);
  if (text === '') return;
  const labels = { [WATCH_LABEL]: randomUUID() };
  const folder = typedFolder(text);
  logCommand(context.store, 'watch-source', folder, ...(quick ? ['--quick'] : []));
  context.session.watchFolder({
    folder,
    requestFor: (kernel) => ({
      method: 'runExperiment',
      request: { kernel, options: { requestId: randomUUID(), labels } },
    }),
    quick,
  });
}

/** Shows the last match, because people look for the newest lines. */
function finishSearch(query: string, store: KeyContext['store']): void {
  store.dispatch({ type: 'search', query });
  if (query === '') return;
  const last = store.search?.neighbor(store.log.end, -1);
  if (last === undefined) tellNoMatch(store, `No line of the log matches "${query}"`);
  else showLine(store, last);
}

function pressInConfirm(key: string, overlay: OverlayOf<'confirm'>, context: KeyContext): void {
  close(context);
  const isYes = key === 'y' || key === 'Y';
  if (overlay.commandId === 'edit-source' && (isYes || key === 'c'))
    return void editSource(context, isYes ? 'file' : 'copy');
  if (!isYes || overlay.commandId !== 'cancel') return;
  context.store.dispatch({ type: 'mark', jobs: [] });
  for (const job of overlay.subjects) logJobCommand(context.store, 'cancel', job);
  void context.session.cancel(overlay.subjects);
}

const close = ({ store }: KeyContext): void => store.dispatch({ type: 'overlay', overlay: undefined });

/** Shows the match nearest to the visible lines; while following, nearest to the end of the log. */
function showMatch(store: Store, direction: 1 | -1): void {
  const { log } = store.state.ui;
  const line = store.search?.neighbor(log.follow ? store.log.end : log.top, direction);
  if (line === undefined) return tellNoMatch(store, `No line of the log has "${log.query}"`);
  showLine(store, line);
}

/** Says that a search finds nothing, until another text is searched for or the log gets a match. */
function tellNoMatch(store: Store, text: string): void {
  const { query } = store.state.ui.log;
  const until = ({ ui }: AppState): boolean =>
    ui.log.query !== query || store.search?.neighbor(store.log.start, 1) !== undefined;
  store.dispatch({ type: 'notice', text, tone: 'warn', about: 'view', until });
}

/** Shows the next error after the visible lines, wrapping around to the first. */
function showError(store: Store): void {
  const { follow, top } = store.state.ui.log;
  const { log } = store;
  const isError = (line: number): boolean => log.at(line)?.tone === 'bad';
  const from = follow ? log.start : top + 1;
  for (let line = from; line < log.end; line++) if (isError(line)) return showLine(store, line);
  for (let line = log.start; line < from; line++) if (isError(line)) return showLine(store, line);
  let seen = log.end;
  const until = (): boolean => {
    for (; seen < log.end; seen++) if (isError(seen)) return true;
    return false;
  };
  store.dispatch({ type: 'notice', text: 'The log has no error', tone: 'info', about: 'view', until });
}

const showLine = (store: Store, top: number): void =>
  store.dispatch({ type: 'log-position', follow: false, top, isHit: true });
