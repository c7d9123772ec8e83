import { useEffect, useRef, useSyncExternalStore } from 'react';
import { useApp, useInput, usePaste, useStdout, useWindowSize } from 'ink';
import type { KeyContext } from '../keys/handler.ts';
import { pastePlainText, pressKey } from '../keys/dispatch.ts';
import { pressMouse } from '../keys/mouse-keys.ts';
import { keyNames } from '../keys/key-name.ts';
import type { jobControl } from '../terminal/job-control.ts';
import type { TerminalGuard } from '../terminal/modes.ts';
import { MOUSE_OFF, MOUSE_ON } from '../terminal/mouse.ts';
import type { Theme } from '../present/cells/theme.ts';
import { inlineRows } from '../screens/inline.ts';
import { Inline } from './inline.tsx';
import { useJobControl } from './use-job-control.ts';
import { useMouse } from './use-mouse.ts';
import { Screen } from './screen.tsx';

/** The context of commands without the parts that need a component. */
export interface AppContext extends Omit<KeyContext, 'lendTerminal' | 'suspend'> {
  /** Runs `borrower` while Ink has let go of the terminal. */
  readonly lend: TerminalGuard['lend'];
  readonly jobControl: typeof jobControl;
}

interface AppProps {
  readonly context: AppContext;
  readonly theme: Theme;
  readonly inline?: boolean;
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
    // While an editor has the terminal, the editor restores the terminal's modes.
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
  useMouse(hasMouse && !inline, (event) => pressMouse(event, context));
  useInput((input, key) => {
    for (const name of keyNames(input, key)) {
      // Keys read together with the one that opened the editor. They can't be passed on, and have no meaning here.
      if (lent.current) return;
      pressKey(name, context);
    }
  });
  usePaste((text) => pastePlainText(text, context));
  return inline ? <Inline store={store} theme={theme} lent={lent} /> : <Screen store={store} theme={theme} />;
}
