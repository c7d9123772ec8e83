/** Ink in a real terminal emulator without a screen. Tests read as text what a user would see. */
import { EventEmitter } from 'node:events';
import type { PassThrough } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { Terminal } from '@xterm/headless';
import { render } from 'ink';
import { App, type AppContext } from '../components/app.tsx';
import type { SourcePlace } from '../terminal/editor.ts';
import { initialState } from '../state/app-state.ts';
import { Session } from '../session/session.ts';
import { Store } from '../session/store.ts';
import type { Theme } from '../present/cells/theme.ts';
import { LISTED_PROBLEMS } from './decode-job.ts';
import { fakeRunner, type FakeRunner } from './fake-runner.ts';
import { openKeyboard } from './keyboard.ts';
import { SAMPLE_START_MS } from './sample-job.ts';
import { styleRows } from './styled-screen.ts';

export interface TestTerminal {
  readonly store: Store;
  readonly runner: FakeRunner;
  /** Texts that were copied. */
  readonly copied: readonly { text: string; fileName: string }[];
  /** Places opened in the editor. */
  readonly edited: readonly SourcePlace[];
  /** Processes that Ctrl-Z stopped. */
  readonly stopped: readonly string[];
  /** True if the user has left. */
  readonly left: () => boolean;
  /** The content of the screen, one line per row, without trailing spaces. */
  readonly screen: () => Promise<string>;
  /** Number of keys and pastes so far. */
  readonly inputs: () => number;
  /** The styles of the cells: one line for each row that has a style. */
  readonly styles: () => string[];
  /** Sends keys in the way that a terminal does. */
  readonly press: (keys: string) => Promise<void>;
  readonly resize: (columns: number, rows: number) => Promise<void>;
  /** Everything that was written so far, including escape sequences. */
  readonly written: () => string;
  /** Sets what the user does in the editor. */
  readonly onEdit: (edit: (place: SourcePlace) => void) => void;
  /** Sets the effect of the prompt that N opens. */
  readonly onNewKernel: (make: NonNullable<AppContext['newKernel']>) => void;
  /** Sets the lab log that L shows. */
  readonly onLabLog: (make: NonNullable<AppContext['labLog']>) => void;
  readonly close: () => void;
}

export interface TestTerminalOptions {
  readonly columns: number;
  readonly rows: number;
  readonly theme?: Theme;
  readonly runner?: FakeRunner;
  /** The time that views show, in milliseconds since 1970. */
  readonly now?: number;
  /** True to begin a session with the fake runner; false if the test itself puts data into the store. */
  readonly session?: boolean;
}

const KERNELS = fileURLToPath(new URL('../../../../kernels', import.meta.url));

const COLORLESS: Theme = { colors: 'none', ascii: false };

export function openTerminal({
  columns,
  rows,
  theme = COLORLESS,
  runner = fakeRunner(),
  now = SAMPLE_START_MS + 12_600,
  session: begins = false,
}: TestTerminalOptions): TestTerminal {
  // convertEol, because a real terminal also turns "
  // " into "\r
  // ", even in raw mode.
  const terminal = new Terminal({ cols: columns, rows, allowProposedApi: true, convertEol: true });
  const written: string[] = [];
  const stdout = Object.assign(new EventEmitter(), {
    isTTY: true,
    columns,
    rows,
    writable: true,
    write: (text: string, done?: () => void) => {
      written.push(text);
      terminal.write(text, done);
      return true;
    },
  }) as unknown as NodeJS.WriteStream;
  const stdin = openKeyboard();
  const store = new Store({
    state: initialState({ runner: { label: 'unix:/tmp/runner.sock', embedded: true }, columns, rows, now }),
  });
  const problems = (): Promise<typeof LISTED_PROBLEMS> => Promise.resolve(LISTED_PROBLEMS);
  const session = new Session({ client: runner, store, now: () => now, problems });
  let hasLeft = false;
  const copied: { text: string; fileName: string }[] = [];
  const edited: SourcePlace[] = [];
  const stopped: string[] = [];
  let inputs = 0;
  const context: AppContext = {
    onInput: () => void (inputs += 1),
    store,
    session,
    leave: () => {
      hasLeft = true;
      ink.unmount();
    },
    copy: (text, fileName) => {
      copied.push({ text, fileName });
      return { file: `/tmp/${fileName}`, sent: true, inTmux: false };
    },
    edit: (place) => {
      edited.push(place);
      editIn(place);
      return Promise.resolve();
    },
    lend: (borrower) => borrower(),
    jobControl: () => ({
      stop: (whom) => {
        stopped.push(whom);
        return Promise.resolve();
      },
      close: () => undefined,
    }),
    kernelsDirectory: KERNELS,
    newKernel: (...asked) => makeKernel(...asked),
    labLog: (since) => makeLabLog(since),
  };
  let makeLabLog: NonNullable<AppContext['labLog']> = () => Promise.reject(new Error('no test expects a lab log'));
  let editIn: (place: SourcePlace) => void = () => undefined;
  let makeKernel: NonNullable<AppContext['newKernel']> = () =>
    Promise.reject(new Error('no test expects a new kernel'));
  const ink = render(<App context={context} theme={theme} />, {
    stdout,
    stdin,
    alternateScreen: true,
    incrementalRendering: true,
    maxFps: 60,
    exitOnCtrlC: false,
    patchConsole: false,
    interactive: true,
  });
  if (begins) void session.begin();
  return {
    store,
    runner,
    copied,
    edited,
    stopped,
    left: () => hasLeft,
    written: () => written.join(''),
    screen: async () => {
      await settle(terminal, store, written);
      const buffer = terminal.buffer.active;
      return Array.from(
        { length: terminal.rows },
        (_, row) => buffer.getLine(buffer.viewportY + row)?.translateToString(true) ?? '',
      ).join('\n');
    },
    inputs: () => inputs,
    styles: () => styleRows(terminal),
    onEdit: (edit) => void (editIn = edit),
    onNewKernel: (make) => void (makeKernel = make),
    onLabLog: (make) => void (makeLabLog = make),
    press: async (keys) => {
      (stdin as unknown as PassThrough).write(keys);
      await settle(terminal, store, written);
    },
    resize: async (newColumns, newRows) => {
      terminal.resize(newColumns, newRows);
      Object.assign(stdout, { columns: newColumns, rows: newRows });
      stdout.emit('resize');
      await settle(terminal, store, written);
    },
    close: () => {
      session.end();
      ink.unmount();
      terminal.dispose();
    },
  };
}

// Longer than Ink's own throttle (17 ms) and its wait for the rest of an escape sequence (20 ms).
const QUIET_MS = 40;
const LOOK_EVERY_MS = 10;

/** Waits until no frame is due, nothing was written for a while, and the emulator has processed all output. */
async function settle(terminal: Terminal, store: Store, written: readonly string[]): Promise<void> {
  let seen = -1;
  for (let quiet = 0; quiet < QUIET_MS; quiet += LOOK_EVERY_MS) {
    // eslint-disable-next-line flashcore/no-fixed-wait -- only time shows that nothing more is drawn
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    if (store.pending || written.length !== seen) quiet = 0;
    seen = written.length;
  }
  await new Promise<void>((resolve) => terminal.write('', resolve));
}
