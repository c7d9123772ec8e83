import { Box, Text } from 'ink';
import { paint, type Theme } from '../present/cells/theme.ts';
import type { Row } from '../present/cells/row.ts';

interface PaintedRowsProps {
  readonly rows: readonly string[];
  readonly width: number;
}

/** Draws rows as text elements, one each. Only visible rows become elements. */
export function PaintedRows({ rows, width }: PaintedRowsProps) {
  return (
    <Box flexDirection="column" width={width} height={rows.length} flexShrink={0}>
      {rows.map((row, index) => (
        <Text key={index} wrap="truncate">
          {row}
        </Text>
      ))}
    </Box>
  );
}

interface RowsProps {
  readonly rows: readonly Row[];
  readonly width: number;
  readonly theme: Theme;
}

export const Rows = ({ rows, width, theme }: RowsProps) => (
  <PaintedRows rows={rows.map((row) => paint(row, theme))} width={width} />
);
