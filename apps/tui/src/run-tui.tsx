/** The interactive half of fa-tui. */
import process from 'node:process';
import { render } from 'ink';
import { App, type AppContext } from './components/app.tsx';
import { runnerKernels } from './connection/data-directory.ts';
import { inlineRows } from './screens/inline.ts';
import { initialState, type AppState } from './state/app-state.ts';
import { runningJob } from './state/selectors.ts';
import type { RunnerPort, StartRequest, WatchFolder } from './session/runner-port.ts';
import { Session } from './session/session.ts';
import { Store } from './session/store.ts';
import { savedViewOf, withSavedView } from './state/saved-view.ts';
import type { Appearance } from './settings/appearance.ts';
import { ViewFile } from './settings/view-file.ts';
import { clipboard } from './terminal/clipboard.ts';
import { runEditor, type SourcePlace } from './terminal/editor.ts';
import { guardTerminal, makeNonBlocking } from './terminal/modes.ts';
import { keepYoungGeneration } from './terminal/young-generation.ts';
import { themeOf } from './present/cells/theme.ts';
import { tellEnds } from './session/tell-ends.ts';

export interface RunTuiOptions {
  /** Connected; stays the caller's to close. */
  readonly client: RunnerPort;
  /** `address`: what the view is saved under. */
  readonly connection: AppState['runner'] & { readonly address: string };
  /** Brings back an embedded runner that was killed. */
  readonly revive?: (() => Promise<void>) | undefined;
  readonly appearance: Appearance;
  /** A job to start and show. */
  readonly start?: StartRequest | undefined;
  /** Name of a job to show. */
  readonly watchJob?: string | undefined;
  /** What to say on leaving of a job that goes on; absent: nothing, as of a replay. */
  readonly comeBack?: (job: string) => string;
  /** A folder to watch. */
  readonly watchFolder?: WatchFolder | undefined;
}

// Frames are paced by the store (FRAME_MS, faster after a key); Ink's own limit must not lie below it, or both together
// halve the rate.
const INK_MAX_FPS = 60;

/** Draws on the terminal until the user leaves; gives the exit code. Jobs go on. */
export async function runTui({
  client,
  connection,
  revive,
  appearance,
  start,
  watchJob,
  watchFolder,
  comeBack,
}: RunTuiOptions): Promise<number> {
  const { stdin, stdout } = process;
  const theme = themeOf(process.env, appearance.theme);
  makeNonBlocking(stdout);
  keepYoungGeneration();
  const viewFile = appearance.restoreView ? new ViewFile(process.env) : undefined;
  const left = viewFile?.read(connection.address);
  const fresh = initialState({
    runner: connection,
    columns: stdout.columns,
    rows: appearance.inline ? inlineRows(stdout.rows) : stdout.rows,
    now: Date.now(),
  });
  const store = new Store({
    state: left?.view === undefined ? fresh : withSavedView(fresh, left.view),
    canDraw: () => stdout.writableLength === 0,
  });
  tellEnds(store, (text) => stdout.write(text), appearance.endNotice);
  if (appearance.mouse) store.dispatch({ type: 'toggle', what: 'mouse' });
  if (left?.problem !== undefined) store.dispatch({ type: 'notice', text: left.problem, tone: 'warn' });
  const session = new Session({ client, store, ...(revive && { revive }) });
  let leave = (): void => undefined;
  const guard = guardTerminal({ unmount: () => leave(), stdin, stdout, alternateScreen: !appearance.inline });
  const edit = (place: SourcePlace): Promise<void> =>
    guard.lend(() =>
      runEditor(place, appearance.editor === undefined ? process.env : { ...process.env, VISUAL: appearance.editor }),
    );
  const context: AppContext = {
    store,
    session,
    leave: () => leave(),
    copy: clipboard(stdout, process.env),
    edit,
    kernelsDirectory: connection.embedded ? runnerKernels() : undefined,
  };
  const screen = render(<App context={context} theme={theme} inline={appearance.inline} />, {
    alternateScreen: !appearance.inline,
    incrementalRendering: true,
    maxFps: INK_MAX_FPS,
    exitOnCtrlC: false,
    patchConsole: false,
    stdin,
    stdout,
  });
  let unsaved: string | undefined;
  leave = () => {
    unsaved = problemOf(() => viewFile?.write(connection.address, savedViewOf(store.state)));
    screen.unmount();
  };
  const begun = session.begin({ start, watchJob, watchFolder, lastJob: left?.view?.job });
  try {
    await screen.waitUntilExit();
    return 0;
  } finally {
    session.end();
    await begun;
    guard.release();
    const goesOn = runningJob(store.state);
    if (goesOn !== undefined && comeBack !== undefined) process.stderr.write(`${comeBack(goesOn)}\n`);
    if (unsaved !== undefined) process.stderr.write(`fa-tui could not keep how you left it: ${unsaved}\n`);
  }
}

/** Leaving must not fail because the disk is full. */
function problemOf(action: () => void): string | undefined {
  try {
    action();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
