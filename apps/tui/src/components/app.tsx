import { useEffect, useSyncExternalStore } from 'react';
import { useApp, useInput, useWindowSize } from 'ink';
import type { CommandContext } from '../keys/command.ts';
import { pressKey } from '../keys/dispatch.ts';
import { keyNames } from '../keys/key-name.ts';
import type { Theme } from '../theme.ts';
import { Screen } from './screen.tsx';

/** What commands work with, but for what only a component has. */
export type AppContext = Omit<CommandContext, 'lendTerminal'>;

/** Binds the store to the screen, and the keyboard to the command table. */
export function App({ context: given, theme }: { readonly context: AppContext; readonly theme: Theme }) {
  const { suspendTerminal } = useApp();
  const context: CommandContext = { ...given, lendTerminal: suspendTerminal };
  const { store } = context;
  const snapshot = useSyncExternalStore(store.subscribe, store.getSnapshot);
  const { columns, rows } = useWindowSize();
  useEffect(() => store.dispatch({ type: 'resize', columns, rows }), [store, columns, rows]);
  useInput((input, key) => {
    for (const name of keyNames(input, key)) pressKey(name, context);
  });
  return <Screen snapshot={snapshot} theme={theme} />;
}
