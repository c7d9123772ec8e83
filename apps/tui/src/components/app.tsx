import { useEffect, useRef, useSyncExternalStore, useCallback } from 'react';
import { useApp, useInput, usePaste, useStdout, useWindowSize, useStdin } from 'ink';
import type { KeyContext } from '../keys/handler.ts';
import { pastePlainText, pressedKeys, pressKey } from '../keys/dispatch.ts';
import { pressMouse } from '../keys/move-keys.ts';
import type { jobControl, JobControl, JobControlOptions } from '../terminal/job-control.ts';
import { type TerminalGuard, MOUSE_OFF, MOUSE_ON, mouseEvents, type MouseEvent } from '../terminal/modes.ts';
import { type Theme, paint } from '../present/cells/theme.ts';
import { inlineRows, isStatusOnly, newRows, statusRows, type Printed } from '../screens/inline.ts';
import { Screen, Rows } from './screen.tsx';

/** The context of commands, without the parts that need a mounted component. */
export interface AppContext extends Omit<KeyContext, 'lendTerminal' | 'suspend'> {
  /** Runs a function during which another program has the terminal instead of Ink. */
  readonly lend: TerminalGuard['lend'];
  readonly jobControl: typeof jobControl;
  /** Called for each key, paste and action of the mouse. */
  readonly onInput?: () => void;
}

interface AppProps {
  readonly context: AppContext;
  readonly theme: Theme;
  readonly inline?: boolean;
}

/** Listens for the signals of job control while the component is mounted; returns the function that stops fa-tui. */
function useJobControl(
  open: (options: JobControlOptions) => JobControl,
  listeners: JobControlOptions,
): JobControl['stop'] {
  const latest = useRef(listeners);
  const opened = useRef<JobControl>(undefined);
  useEffect(() => void (latest.current = listeners), [listeners]);
  useEffect(() => {
    const control = open({
      onStop: () => latest.current.onStop(),
      onContinue: () => latest.current.onContinue(),
    });
    opened.current = control;
    return control.close;
  }, [open]);
  return useCallback(async (whom) => opened.current?.stop(whom), []);
}

/** Turns the terminal's mouse reports on or off, and passes the events to `handle`. */
function useMouse(on: boolean, handle: (event: MouseEvent) => void): void {
  const { stdin } = useStdin();
  const { stdout } = useStdout();
  const latest = useRef(handle);
  useEffect(() => void (latest.current = handle), [handle]);
  useEffect(() => {
    if (!on) return undefined;
    // Ink discards input that is not a key, but other listeners still see every chunk.
    const listen = (input: Buffer | string): void =>
      mouseEvents(String(input)).forEach((event) => latest.current(event));
    stdin.on('data', listen);
    stdout.write(MOUSE_ON);
    return () => {
      stdin.off('data', listen);
      stdout.write(MOUSE_OFF);
    };
  }, [on, stdin, stdout]);
}

interface InlineProps {
  readonly store: KeyContext['store'];
  readonly theme: Theme;
  readonly lent: { readonly current: boolean };
}

/**
 * fa-tui with --inline, which draws below the prompt. `lent` is set while another program has the terminal and log
 * lines must wait.
 */
function Inline({ store, theme, lent }: InlineProps) {
  const snapshot = useSyncExternalStore(store.subscribe, store.getSnapshot);
  const { write } = useStdout();
  const printed = useRef<Printed>({ job: undefined, next: 0 });
  useEffect(() => {
    if (lent.current) return;
    const { rows, printed: after } = newRows(snapshot, printed.current);
    printed.current = after;
    if (rows.length > 0) write(rows.map((row) => `${paint(row, theme)}\n`).join(''));
  }, [snapshot, theme, lent, write]);
  const { state } = snapshot;
  return isStatusOnly(state) ? (
    <Rows rows={statusRows(state)} width={state.ui.columns} theme={theme} />
  ) : (
    <Screen store={store} theme={theme} />
  );
}

/** Binds the store to the screen, and the keyboard to the command table. */
export function App({ context: given, theme, inline = false }: AppProps) {
  const { suspendTerminal } = useApp();
  const { stdout } = useStdout();
  const lent = useRef(false);
  const { store } = given;
  const lendTerminal = async (borrower: () => Promise<void>): Promise<void> => {
    lent.current = true;
    const hasMouse = store.state.ui.mouse && !inline;
    if (hasMouse) stdout.write(MOUSE_OFF);
    try {
      await suspendTerminal(() => given.lend(borrower));
    } finally {
      lent.current = false;
      if (hasMouse) stdout.write(MOUSE_ON);
    }
  };
  const stop = useJobControl(given.jobControl, {
    // While an editor has the terminal, the editor itself restores the terminal's modes.
    onStop: () => void (lent.current ? stop('fa-tui') : lendTerminal(() => stop('fa-tui'))),
    onContinue: () => void (lent.current || lendTerminal(() => Promise.resolve())),
  });
  const context: KeyContext = { ...given, lendTerminal, suspend: () => void lendTerminal(() => stop('group')) };
  const hasMouse = useSyncExternalStore(store.subscribe, () => store.getSnapshot().state.ui.mouse);
  const { columns, rows } = useWindowSize();
  useEffect(
    () => store.dispatch({ type: 'resize', columns, rows: inline ? inlineRows(rows) : rows }),
    [store, columns, rows, inline],
  );
  useMouse(hasMouse && !inline, (event) => {
    given.onInput?.();
    pressMouse(event, context);
  });
  useInput((input, key) => {
    given.onInput?.();
    for (const name of pressedKeys(input, key, context)) {
      // These keys were read together with the key that opened the editor. They can't be passed on to it, and have no
      // meaning here.
      if (lent.current) return;
      pressKey(name, context);
    }
  });
  usePaste((text) => {
    given.onInput?.();
    pastePlainText(text, context);
  });
  return inline ? <Inline store={store} theme={theme} lent={lent} /> : <Screen store={store} theme={theme} />;
}
