/** The interactive part of fa-tui. */
import process from 'node:process';
import { render } from 'ink';
import { errorText } from '@flashcore/shared/text';
import { App, type AppContext } from './components/app.tsx';
import { customKeysProblem } from './keymap/commands.ts';
import { runnerKernels } from './connection/data-directory.ts';
import { inlineRows } from './screens/inline.ts';
import type { Appearance } from './settings/settings.ts';
import { initialState } from './state/app-state.ts';
import { openOwnJobs } from './state/selectors.ts';
import { lateRunner, type OpenedRunner, type Opening } from './session/late-runner.ts';
import type { StartRequest, WatchFolder } from './session/runner-port.ts';
import { Session } from './session/session.ts';
import { Store } from './session/store.ts';
import type { ProblemReader } from './session/runner-lists.ts';
import type { KernelFolders } from './state/listed-kernel.ts';
import { savedViewOf, withSavedView } from './state/saved-view.ts';
import { ViewFile } from './settings/view-file.ts';
import { clipboard } from './terminal/clipboard.ts';
import { runEditor, type SourcePlace } from './terminal/editor.ts';
import { jobControl } from './terminal/job-control.ts';
import { guardTerminal, makeNonBlocking } from './terminal/modes.ts';
import { themeOf, type Theme } from './present/cells/theme.ts';
import { askBackground } from './terminal/background.ts';
import { tellEnds } from './session/tell-ends.ts';
import { keepYoungGeneration } from './state/log-buffer.ts';

interface RunTuiOptions {
  /** The user's own kernel folders; absent if they are not listed, as in a replay. */
  readonly folders?: KernelFolders;
  readonly problems?: ProblemReader;
  /** The data about the runner before it answers; the address is empty if it is unknown. */
  readonly expected: Pick<OpenedRunner, 'runner' | 'address'>;
  /** Called once the first frame is drawn. Its errors end the program. */
  readonly open: (opening: Opening) => Promise<OpenedRunner>;
  readonly appearance: Appearance;
  /** A job to start and show. */
  readonly start?: StartRequest | undefined;
  /** Name of a job to show. */
  readonly watchJob?: string | undefined;
  /** The message about jobs that continue after the user leaves; absent for no message, as in a replay. */
  readonly comeBack?: (jobs: readonly string[]) => string;
  /** A folder to watch. */
  readonly watchFolder?: WatchFolder | undefined;
}

// The store limits the rate of frames (FRAME_MS, faster after a key). Ink's own limit would only add a delay, so it is
// set so high that it never applies.
const INK_MAX_FPS = 1_000;

/** How often the time of the last key is saved, because a program that is killed cannot save it on leaving. */
const TOUCH_EVERY_MS = 5_000;

/** Draws on the terminal until the user leaves. Jobs continue. Errors: those of `open`. */
export async function runTui({
  folders,
  problems,
  expected,
  open,
  appearance,
  start,
  watchJob,
  watchFolder,
  comeBack,
}: RunTuiOptions): Promise<void> {
  const { stdin, stdout } = process;
  const theme = themeOf(process.env, appearance.theme);
  makeNonBlocking(stdout);
  keepYoungGeneration();
  const viewFile = appearance.restoreView ? new ViewFile(process.env) : undefined;
  const left = viewFile?.read(expected.address);
  const fresh = initialState({
    runner: expected.runner,
    columns: stdout.columns,
    rows: appearance.inline ? inlineRows(stdout.rows) : stdout.rows,
    now: Date.now(),
    ...(appearance.keys !== undefined && { customKeys: appearance.keys }),
  });
  const store = new Store({
    state: left?.view === undefined ? fresh : withSavedView(fresh, left.view),
    canDraw: () => stdout.writableLength === 0,
  });
  tellEnds(store, (text) => stdout.write(text), appearance.endNotice);
  if (appearance.mouse && !store.state.ui.mouse) store.dispatch({ type: 'toggle', what: 'mouse' });
  if (left?.problem !== undefined) store.dispatch({ type: 'notice', text: left.problem, tone: 'warn' });
  const keysProblem = customKeysProblem(store.state.customKeys);
  if (keysProblem !== undefined) store.dispatch({ type: 'notice', text: keysProblem, tone: 'warn' });
  const leaving = new AbortController();
  const firstFrame = Promise.withResolvers<void>();
  const opened = firstFrame.promise.then(() =>
    open({ signal: leaving.signal, notify: (text) => store.dispatch({ type: 'notice', text, tone: 'info' }) }),
  );
  const session = new Session({
    client: lateRunner(opened),
    store,
    folders,
    problems,
    revive: async () => (await opened).revive?.(),
  });
  let leave = (): void => undefined;
  const guard = guardTerminal({ unmount: () => leave(), stdin, stdout, alternateScreen: !appearance.inline });
  const edit = (place: SourcePlace): Promise<void> =>
    runEditor(place, appearance.editor === undefined ? process.env : { ...process.env, VISUAL: appearance.editor });
  const background = asksBackground(appearance, theme)
    ? askBackground({
        stdin,
        stdout,
        onLight: () => screen.rerender(appIn({ ...theme, light: true })),
      })
    : undefined;
  // A program that stays open while the user is away, or works in another one, must not count as a visit.
  let usedAt = Date.now();
  const context: AppContext = {
    onInput: () => void (usedAt = Date.now()),
    store,
    session,
    leave: () => leave(),
    copy: clipboard(stdout, process.env),
    edit,
    // Waits for the terminal's reply about its background, because an editor would interpret a late reply as keys.
    lend: async (borrower) => {
      await background?.settled();
      await guard.lend(borrower);
    },
    jobControl,
    // A replay lists no folders of the user's.
    newKernel: folders && (async (name, from) => (await opened).newKernel!(name, from)),
    labLog: folders && (async (since) => (await opened).labLog!(since)),
    kernelsDirectory: expected.runner.embedded ? runnerKernels() : undefined,
  };
  const appIn = (look: Theme) => <App context={context} theme={look} inline={appearance.inline} />;
  const screen = render(appIn(theme), {
    alternateScreen: !appearance.inline,
    incrementalRendering: true,
    maxFps: INK_MAX_FPS,
    exitOnCtrlC: false,
    patchConsole: false,
    stdin,
    stdout,
  });
  let { address } = expected;
  let unsaved: string | undefined;
  const stillHere = (): void => {
    unsaved = problemOf(() => viewFile?.touch(address, savedViewOf(store.state, usedAt)));
  };
  leave = () => {
    if (address !== '') unsaved = problemOf(() => viewFile?.write(address, savedViewOf(store.state, usedAt)));
    screen.unmount();
  };
  let touching: NodeJS.Timeout | undefined;
  const begin = async (): Promise<void> => {
    const runner = await opened;
    const known = runner.address === address ? left : viewFile?.read(runner.address);
    if (known !== left && known?.view !== undefined) store.dispatch({ type: 'restore', view: known.view });
    ({ address } = runner);
    store.dispatch({ type: 'runner', runner: runner.runner });
    touching = setInterval(stillHere, TOUCH_EVERY_MS);
    stillHere();
    await session.begin({ start, watchJob, watchFolder, lastJob: known?.view?.job });
  };
  firstFrame.resolve();
  const begun = begin().catch((error: unknown) => {
    screen.unmount();
    // A user who left while connecting does not need to see the error.
    if (!leaving.signal.aborted) throw error;
  });
  // The error is reported later, when the terminal has been restored.
  begun.catch(() => undefined);
  try {
    await screen.waitUntilExit();
  } finally {
    leaving.abort();
    session.end();
    await Promise.allSettled([begun]);
    clearInterval(touching);
    await background?.settled();
    guard.release();
    const goOn = openOwnJobs(store.state);
    if (goOn.length > 0 && comeBack !== undefined) process.stderr.write(`${comeBack(goOn)}\n`);
    if (unsaved !== undefined) process.stderr.write(`fa-tui could not save its view: ${unsaved}\n`);
  }
  await begun;
}

/**
 * True if the terminal is asked for its background: only if the answer makes a difference, and not on the Linux
 * console, which does not know OSC and would print the query.
 */
const asksBackground = ({ theme: { background = 'auto' } }: Appearance, { colors, spoken = false }: Theme): boolean =>
  background === 'auto' &&
  colors !== 'none' &&
  !spoken &&
  process.stdin.isTTY &&
  process.stdout.isTTY &&
  process.env['TERM'] !== 'linux';

/** The error of `action`, if it has one. Leaving must not fail, for example because the disk is full. */
function problemOf(action: () => void): string | undefined {
  try {
    action();
    return undefined;
  } catch (error) {
    return errorText(error);
  }
}
