import { useEffect, useRef, useSyncExternalStore } from 'react';
import { useStdout } from 'ink';
import { isStatusOnly, newRows, statusRows, type Printed } from '../screens/inline.ts';
import type { KeyContext } from '../keys/handler.ts';
import { paint, type Theme } from '../present/cells/theme.ts';
import { Rows } from './rows.tsx';
import { Screen } from './screen.tsx';

interface InlineProps {
  readonly store: KeyContext['store'];
  readonly theme: Theme;
  readonly lent: { readonly current: boolean };
}

/** The program below the prompt. `lent` is set while another program has the terminal and lines must wait. */
export function Inline({ store, theme, lent }: InlineProps) {
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
