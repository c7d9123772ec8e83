import { styleText } from 'node:util';

/** What a report is written for: width in columns, colours or none, block characters or plain ASCII. */
export interface ReportFormat {
  readonly width: number;
  /** Names stay whole, though a table or line is then wider than the page: a program reads them, or grep. */
  readonly uncut?: boolean;
  readonly unicode: boolean;
  readonly style: Style;
}

export type StyleName = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';
export type Style = (name: StyleName, text: string) => string;
export type ColorMode = 'auto' | 'always' | 'never';

/** The part of a stream that decides how to write to it. */
export interface OutputStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
}

const PIPE_WIDTH = 80;
const WIDEST = 100;
const NARROWEST = 40;

export const plainStyle: Style = (_name, text) => text;
const colorStyle: Style = (name, text) => (text === '' ? '' : styleText(name, text, { validateStream: false }));

/**
 * Format for a stream: 80 columns in a pipe, where tables keep names whole, the terminal's own width up to 100
 * otherwise.
 */
export function formatFor(
  stream: OutputStream,
  color: ColorMode,
  environment: NodeJS.ProcessEnv,
  ascii = environment.FA_TUI_ASCII === '1',
): ReportFormat {
  const width = stream.isTTY && stream.columns ? Math.min(WIDEST, Math.max(NARROWEST, stream.columns)) : PIPE_WIDTH;
  return {
    width,
    uncut: stream.isTTY !== true,
    unicode: !ascii && takesUnicode(environment),
    style: wantsColor(stream, color, environment) ? colorStyle : plainStyle,
  };
}

// https://no-color.org: set and not empty. A flag on the command line goes before the environment.
function wantsColor(stream: OutputStream, color: ColorMode, environment: NodeJS.ProcessEnv): boolean {
  if (color !== 'auto') return color === 'always';
  return stream.isTTY === true && !environment.NO_COLOR && environment.TERM !== 'dumb';
}

// Only a locale that is set and names another encoding speaks against block characters; many containers set none.
function takesUnicode(environment: NodeJS.ProcessEnv): boolean {
  const locale = environment.LC_ALL || environment.LC_CTYPE || environment.LANG;
  return !locale || /utf-?8/i.test(locale);
}
