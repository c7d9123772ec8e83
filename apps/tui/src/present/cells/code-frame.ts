/** A place in the source with the lines around it, as compilers show it: numbers, text and a caret. */
import type { CodeFrame } from '@flashcore/shared/contract';
import { cutCells } from './cell-text.ts';

export interface FrameLine {
  /** For example "10 │ " or "11 ▸ ". */
  readonly gutter: string;
  readonly text: string;
  readonly kind: 'meant' | 'around' | 'caret';
}

/**
 * The frame's lines in at most `width` cells. If the column is known and visible, a caret is below the line, otherwise
 * a mark is in the gutter. Color would not be enough for users without colors.
 */
export function frameLines({ line, column, firstLine, lines }: CodeFrame, width: number): FrameLine[] {
  const cells = String(firstLine + lines.length - 1).length;
  const gutterCells = cells + 3;
  return lines.flatMap((text, index): FrameLine[] => {
    const number = firstLine + index;
    const isMeant = number === line;
    const hasCaret = isMeant && column > 0 && column < width - gutterCells;
    const shown: FrameLine = {
      gutter: `${String(number).padStart(cells)} ${isMeant && !hasCaret ? '▸' : '│'} `,
      text: cutCells(text, width - gutterCells),
      kind: isMeant ? 'meant' : 'around',
    };
    return hasCaret
      ? [shown, { gutter: `${' '.repeat(cells)} │ `, text: `${' '.repeat(column - 1)}^`, kind: 'caret' }]
      : [shown];
  });
}
