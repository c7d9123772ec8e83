import type { CodeFrame } from '@flashcore/shared/contract';
import { frameLines } from '../present/code-frame.ts';
import type { ReportFormat } from './format.ts';
import { printable } from './text.ts';

const FRAME_INDENT = 4;

/** The source around a place, its line as it is and the caret in red. */
export function codeFrameLines(frame: CodeFrame | undefined, format: ReportFormat): string[] {
  if (frame === undefined) return [];
  return frameLines(frame, format.width - FRAME_INDENT).map(({ gutter, text, kind }) => {
    const line = `${' '.repeat(FRAME_INDENT)}${printable(gutter)}`;
    const source = printable(text);
    return `${format.style('dim', format.unicode ? line : line.replace('│', '|'))}${kind === 'caret' ? format.style('red', source) : source}`.trimEnd();
  });
}
