/** The target of a report: a terminal with its width and colors, or a pipe. */
import { isScreenReader, paint, themeOf, toAscii } from '../cells/theme.ts';
import { rowText, type Row } from '../cells/row.ts';
import type { Role } from '../roles.ts';

export interface ReportFormat {
  /** Width of the output in columns. */
  readonly width: number;
  /** Keeps names and tables whole even if a line is then too wide, because a program or grep reads the output. */
  readonly uncut?: boolean;
  readonly colors: boolean;
  readonly ascii: boolean;
  /** Progress only adds lines: the terminal cannot redraw a line, or a screen reader would read it again and again. */
  readonly appends?: boolean;
}

export type ColorMode = 'auto' | 'always' | 'never';

/** The properties of a stream that determine how to write to it. */
export interface OutputStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
}

const PIPE_WIDTH = 80;
const WIDEST = 100;
const NARROWEST = 40;

interface FormatChoice {
  readonly color: ColorMode;
  readonly environment: NodeJS.ProcessEnv;
  readonly ascii?: boolean | undefined;
}

/**
 * The format for a stream: 80 columns in a pipe, where tables keep names whole; otherwise the terminal's width up to
 * 100.
 */
export function formatFor(stream: OutputStream, { color, environment, ascii }: FormatChoice): ReportFormat {
  const width = stream.isTTY && stream.columns ? Math.min(WIDEST, Math.max(NARROWEST, stream.columns)) : PIPE_WIDTH;
  return {
    width,
    uncut: stream.isTTY !== true,
    colors: wantsColor(stream, color, environment),
    ascii: themeOf(environment, { ascii }).ascii,
    appends: environment.TERM === 'dumb' || isScreenReader(environment),
  };
}

// NO_COLOR disables colors if it is set and not empty (https://no-color.org). A flag on the command line takes
// precedence over the environment.
function wantsColor(stream: OutputStream, color: ColorMode, environment: NodeJS.ProcessEnv): boolean {
  if (color !== 'auto') return color === 'always';
  return stream.isTTY === true && !environment.NO_COLOR && environment.TERM !== 'dumb';
}

/**
 * A row as text. It uses only the terminal's own sixteen colors, because a report is read next to other programs'
 * output.
 */
export function paintLine(row: Row, { colors, ascii }: ReportFormat): string {
  if (colors) return paint(row, { colors: '16', ascii });
  return ascii ? toAscii(rowText(row)) : rowText(row);
}

/** Text in a role's style. */
export const styled = (text: string, role: Role, format: ReportFormat): string =>
  text === '' ? '' : paintLine([{ text, role }], format);
