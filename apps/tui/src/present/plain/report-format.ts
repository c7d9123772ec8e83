/** What a report is written for: a terminal's width and colours, or a pipe. */
import { isScreenReader, paint, themeOf, toAscii } from '../cells/theme.ts';
import { rowText, type Row } from '../cells/row.ts';
import type { Role } from '../roles.ts';

export interface ReportFormat {
  /** Columns. */
  readonly width: number;
  /** Names and tables stay whole, though a line is then wider than the page: a program reads them, or grep. */
  readonly uncut?: boolean;
  readonly colors: boolean;
  readonly ascii: boolean;
  /** Progress only adds lines: the terminal cannot redraw one, or a screen reader would read it again and again. */
  readonly appends?: boolean;
}

export type ColorMode = 'auto' | 'always' | 'never';

/** The part of a stream that decides how to write to it. */
export interface OutputStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
}

const PIPE_WIDTH = 80;
const WIDEST = 100;
const NARROWEST = 40;

export interface FormatChoice {
  readonly color: ColorMode;
  readonly environment: NodeJS.ProcessEnv;
  readonly ascii?: boolean | undefined;
}

/**
 * Format for a stream: 80 columns in a pipe, where tables keep names whole, the terminal's own width up to 100
 * otherwise.
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

// https://no-color.org: set and not empty. A flag on the command line goes before the environment.
function wantsColor(stream: OutputStream, color: ColorMode, environment: NodeJS.ProcessEnv): boolean {
  if (color !== 'auto') return color === 'always';
  return stream.isTTY === true && !environment.NO_COLOR && environment.TERM !== 'dumb';
}

/** A row as text; in colours the terminal's own sixteen: a report is read among other programs' output. */
export function paintLine(row: Row, { colors, ascii }: ReportFormat): string {
  if (colors) return paint(row, { colors: '16', ascii });
  return ascii ? toAscii(rowText(row)) : rowText(row);
}

/** Text in a role's look. */
export const styled = (text: string, role: Role, format: ReportFormat): string =>
  text === '' ? '' : paintLine([{ text, role }], format);
