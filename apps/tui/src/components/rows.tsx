import { Box, Text } from 'ink';
import { paint, type Theme } from '../present/cells/theme.ts';
import type { Row } from '../present/cells/row.ts';

interface RowsProps {
  readonly rows: readonly Row[];
  readonly width: number;
  readonly theme: Theme;
}

/** Rows as text elements, one each: nothing that is not on the screen becomes an element. */
export function Rows({ rows, width, theme }: RowsProps) {
  return (
    <Box flexDirection="column" width={width} height={rows.length} flexShrink={0}>
      {rows.map((row, index) => (
        <Text key={index} wrap="truncate">
          {paint(row, theme)}
        </Text>
      ))}
    </Box>
  );
}
