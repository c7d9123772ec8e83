import { useState, useSyncExternalStore } from 'react';
import { Box } from 'ink';
import type { KeyContext } from '../keys/handler.ts';
import { ScreenPainter } from './screen-painter.ts';
import type { Theme } from '../present/cells/theme.ts';
import { PaintedRows } from './rows.tsx';

interface ScreenProps {
  readonly store: KeyContext['store'];
  readonly theme: Theme;
}

/** The whole screen. It is redrawn only if a row has changed. */
export function Screen({ store, theme }: ScreenProps) {
  const [painter] = useState(() => new ScreenPainter(theme));
  const { rows, columns } = useSyncExternalStore(store.subscribe, () => painter.painted(store.getSnapshot()));
  return (
    <Box flexDirection="column" width={columns} height={rows.length} overflow="hidden">
      <PaintedRows rows={rows} width={columns} />
    </Box>
  );
}
