/** Three lines of the compiled source around a place, which say more than a line number. */
import { create } from '@bufbuild/protobuf';
import { CodeFrameSchema, type CodeFrame } from '@flashcore/shared/contract';
import { plainLine } from '@flashcore/shared/text';

export interface Place {
  readonly file: string;
  /** From 1; 0 if not known. */
  readonly line: number;
  /** From 1; 0 if not known. */
  readonly column: number;
}

export interface SourceText {
  readonly path: string;
  readonly text: string;
}

const LINES_AROUND = 1;
const MAX_LINE_CHARACTERS = 240;
const TAB = '  ';

/** undefined if the place is unknown or not in these files. */
export function codeFrame(files: readonly SourceText[], { file, line, column }: Place): CodeFrame | undefined {
  const lines = files.find(({ path }) => path === file)?.text.split('\n');
  const meant = lines?.[line - 1];
  if (lines === undefined || meant === undefined) return undefined;
  const firstLine = Math.max(1, line - LINES_AROUND);
  return create(CodeFrameSchema, {
    file,
    line,
    // Each tab before the column becomes two spaces.
    column: column === 0 ? 0 : column + tabsIn(meant.slice(0, column - 1)) * (TAB.length - 1),
    firstLine,
    lines: lines.slice(firstLine - 1, line + LINES_AROUND).map(shownLine),
  });
}

const tabsIn = (text: string): number => text.split('\t').length - 1;
const shownLine = (text: string): string => plainLine(text.replaceAll('\t', TAB)).slice(0, MAX_LINE_CHARACTERS);
