/** The interactive half of fa-tui. */
import process from 'node:process';
import { render } from 'ink';
import { App, type AppContext } from './components/app.tsx';
import { runnerKernels } from './connection/data-directory.ts';
import { initialState } from './state/app-state.ts';
import type { RunnerPort, StartRequest, WatchFolder } from './state/runner-port.ts';
import { Session } from './state/session.ts';
import { Store } from './state/store.ts';
import { clipboard } from './terminal/clipboard.ts';
import { runEditor, type SourcePlace } from './terminal/editor.ts';
import { guardTerminal, makeNonBlocking } from './terminal/modes.ts';
import { keepYoungGeneration } from './terminal/young-generation.ts';
import { themeOf } from './theme.ts';

export interface RunTuiOptions {
  /** Connected; stays the caller's to close. */
  readonly client: RunnerPort;
  readonly connection: { readonly label: string; readonly embedded: boolean };
  /** A job to start and show. */
  readonly start?: StartRequest | undefined;
  /** Name of a job to show. */
  readonly watchJob?: string | undefined;
  /** A folder to watch. */
  readonly watchFolder?: WatchFolder | undefined;
}

// Frames are paced by the store (30 a second); Ink's own limit must lie above it, or both together halve the rate.
const INK_MAX_FPS = 60;

/** Draws on the terminal until the user leaves; gives the exit code. Jobs go on. */
export async function runTui({ client, connection, start, watchJob, watchFolder }: RunTuiOptions): Promise<number> {
  const { stdin, stdout } = process;
  const theme = themeOf(process.env);
  makeNonBlocking(stdout);
  keepYoungGeneration();
  const store = new Store({
    state: initialState({ runner: connection, columns: stdout.columns, rows: stdout.rows, now: Date.now() }),
    canDraw: () => stdout.writableLength === 0,
  });
  const session = new Session({ client, store });
  let leave = (): void => undefined;
  const guard = guardTerminal({ unmount: () => leave(), stdin, stdout });
  const edit = (place: SourcePlace): Promise<void> => guard.lend(() => runEditor(place, process.env));
  const context: AppContext = { store, session, leave: () => leave(), copy: clipboard(stdout), edit, kernelsDirectory: connection.embedded ? runnerKernels() : undefined };
  const screen = render(<App context={context} theme={theme} />, {
    alternateScreen: true, incrementalRendering: true, maxFps: INK_MAX_FPS, exitOnCtrlC: false, patchConsole: false, stdin, stdout,
  });
  leave = () => screen.unmount();
  const begun = session.begin({ start, watchJob, watchFolder });
  try {
    await screen.waitUntilExit();
    return 0;
  } finally {
    session.end();
    await begun;
    guard.release();
  }
}
