import { useEffect, useRef, useSyncExternalStore } from 'react';
import { useApp, useInput, useStdout, useWindowSize } from 'ink';
import type { KeyContext } from '../keys/handler.ts';
import { pressKey } from '../keys/dispatch.ts';
import { pressMouse } from '../keys/mouse-keys.ts';
import { keyNames } from '../keys/key-name.ts';
import { MOUSE_OFF, MOUSE_ON } from '../terminal/mouse.ts';
import type { Theme } from '../present/cells/theme.ts';
import { inlineRows } from '../screens/inline.ts';
import { Inline } from './inline.tsx';
import { useMouse } from './use-mouse.ts';
import { Screen } from './screen.tsx';

/** What commands work with, but for what only a component has. */
export type AppContext = Omit<KeyContext, 'lendTerminal'>;

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
      await suspendTerminal(borrower);
    } finally {
      lent.current = false;
      if (hasMouse) stdout.write(MOUSE_ON);
    }
  };
  const context: KeyContext = { ...given, lendTerminal };
  const hasMouse = useSyncExternalStore(store.subscribe, () => store.getSnapshot().state.ui.mouse);
  const { columns, rows } = useWindowSize();
  useEffect(
    () => store.dispatch({ type: 'resize', columns, rows: inline ? inlineRows(rows) : rows }),
    [store, columns, rows, inline],
  );
  useMouse(hasMouse && !inline, (event) => pressMouse(event, context));
  useInput((input, key) => {
    for (const name of keyNames(input, key)) pressKey(name, context);
  });
  return inline ? <Inline store={store} theme={theme} lent={lent} /> : <Screen store={store} theme={theme} />;
}
