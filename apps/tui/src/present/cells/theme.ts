/**
 * The look of roles: escape sequences for 24-bit, 256, 16 or no colors, and ASCII replacements for other characters.
 */
import { entryOf } from '@flashcore/shared/text';
import { codesOf, type Codes, type ColorDepth } from './style.ts';
import { cellWidth } from './cell-text.ts';
import { HEAT_LEVELS, type Role, type Row, type Run } from './row.ts';

export interface Theme {
  readonly colors: ColorDepth;
  readonly ascii: boolean;
  /** True for a screen reader: there are no boxes or plots, because it would read out their characters. */
  readonly spoken?: boolean;
  /** True for a light background, on which yellow and cyan are hard to read. */
  readonly light?: boolean;
  /** The user's own styles by role. */
  readonly styles?: Readonly<Partial<Record<Role, Codes>>>;
}

/** The user's choices. If a choice is undefined, the environment decides. */
export interface ThemeChoice {
  readonly colors?: ColorDepth | 'auto' | undefined;
  readonly ascii?: boolean | undefined;
  readonly background?: 'auto' | 'light' | 'dark' | undefined;
  /** Styles by role, such as "bold green". */
  readonly styles?: Readonly<Partial<Record<Role, string | undefined>>> | undefined;
}

/**
 * The user's choices, or else what follows from NO_COLOR, FORCE_COLOR=0, COLORTERM, TERM, FA_TUI_ASCII,
 * INK_SCREEN_READER and the locale.
 */
export function themeOf(
  environment: Record<string, string | undefined>,
  { colors = 'auto', ascii, background, styles = {} }: ThemeChoice = {},
): Theme {
  const depth = colors === 'auto' ? colorDepthOf(environment) : colors;
  const chosen = Object.entries(styles).flatMap(([role, style]) =>
    style === undefined ? [] : [[role, codesOf(style, depth)] as const],
  );
  return {
    colors: depth,
    ascii: ascii ?? (environment['FA_TUI_ASCII'] === '1' || !takesUnicode(environment)),
    ...(isScreenReader(environment) && { spoken: true }),
    ...(background === 'light' && { light: true }),
    ...(chosen.length > 0 && { styles: Object.fromEntries(chosen) }),
  };
}

// Unicode is avoided only if a locale with another encoding is set, because many containers set no locale.
export function takesUnicode(environment: Record<string, string | undefined>): boolean {
  const locale = environment['LC_ALL'] || environment['LC_CTYPE'] || environment['LANG'];
  return !locale || /utf-?8/i.test(locale);
}

/** INK_SCREEN_READER is Ink's switch for screen readers. */
export const isScreenReader = (environment: Record<string, string | undefined>): boolean =>
  environment['INK_SCREEN_READER'] === 'true';

function colorDepthOf({ NO_COLOR, FORCE_COLOR, COLORTERM, TERM = '' }: Record<string, string | undefined>): ColorDepth {
  if ((NO_COLOR ?? '') !== '' || FORCE_COLOR === '0' || TERM === 'dumb') return 'none';
  if (COLORTERM === 'truecolor' || COLORTERM === '24bit') return 'truecolor';
  return TERM.includes('256color') ? '256' : '16';
}

// SGR codes: [on, off]. Without color, bold, dim and inverse still distinguish the important roles.
const BOLD = [1, 22] as const;
const DIM = [2, 22] as const;
const UNDERLINE = [4, 24] as const;
const INVERSE = [7, 27] as const;
const foreground = (code: number) => [code, 39] as const;

const COLORED: Record<Role, Codes> = {
  text: [],
  dim: [DIM],
  title: [BOLD],
  accent: [foreground(36)],
  good: [foreground(32)],
  bad: [BOLD, foreground(31)],
  warn: [foreground(33)],
  border: [DIM],
  focus: [BOLD, foreground(36)],
  key: [BOLD],
  match: [foreground(33), INVERSE],
  simulated: [BOLD, foreground(33), INVERSE],
  bar: [foreground(36)],
  barAlternative: [foreground(35)],
  axis: [DIM],
};

const indexed = (code: number) => [`38;5;${code}`, 39] as const;

/** Colors among the 256 that have a contrast of at least 4.5 on white. */
const LIGHT: Record<Role, Codes> = {
  ...COLORED,
  accent: [indexed(24)],
  good: [indexed(28)],
  bad: [BOLD, indexed(160)],
  warn: [indexed(130)],
  focus: [BOLD, indexed(24)],
  match: [indexed(130), INVERSE],
  simulated: [BOLD, indexed(130), INVERSE],
  bar: [indexed(25)],
  barAlternative: [indexed(90)],
};

/** For 16 colors, without yellow and cyan: blue and magenta are dark in every terminal. */
const LIGHT_16: Record<Role, Codes> = {
  ...COLORED,
  accent: [foreground(34)],
  warn: [foreground(35)],
  focus: [BOLD, foreground(34)],
  match: [foreground(35), INVERSE],
  simulated: [BOLD, foreground(35), INVERSE],
  bar: [foreground(34)],
};

const COLORLESS: Record<Role, Codes> = {
  text: [],
  dim: [DIM],
  title: [BOLD],
  accent: [],
  good: [],
  bad: [BOLD],
  warn: [BOLD],
  border: [DIM],
  focus: [BOLD],
  key: [BOLD],
  match: [INVERSE, UNDERLINE],
  simulated: [BOLD, INVERSE],
  bar: [],
  barAlternative: [],
  axis: [DIM],
};

/** The row as text with escape sequences. Each run closes the codes that it opened. */
export function paint(row: Row, theme: Theme): string {
  return (theme.ascii ? withMargins(row) : row).map((piece) => paintRun(piece, theme)).join('');
}

function paintRun(piece: Run, theme: Theme): string {
  const hasBackground = piece.heat !== undefined && (theme.colors === 'truecolor' || theme.colors === '256');
  const isBlank = piece.isInk && (hasBackground || theme.spoken);
  const inked = isBlank ? ' '.repeat(piece.text.length) : piece.text;
  const shown = theme.spoken ? inked.replace(DRAWN, ' ') : inked;
  const text = theme.ascii ? toAscii(shown) : shown;
  const role = piece.role ?? 'text';
  const codes = theme.styles?.[role] ?? paletteOf(theme)[role];
  const all = piece.selected ? [...codes.filter((code) => code !== DIM && code !== INVERSE), INVERSE] : codes;
  const styled = all.reduce((inner, [on, off]) => `\u001b[${on}m${inner}\u001b[${off}m`, text);
  return piece.heat === undefined || piece.selected ? styled : heatBackground(piece.heat, styled, theme.colors);
}

/** The styles of roles for which the user has not chosen one. */
export function paletteOf({ colors, light = false }: Theme): Record<Role, Codes> {
  if (colors === 'none') return COLORLESS;
  if (!light) return COLORED;
  return colors === '16' ? LIGHT_16 : LIGHT;
}

/** Background from dark blue through magenta to yellow. With fewer than 256 colors, ink density shows the level. */
function heatBackground(level: number, text: string, colors: ColorDepth): string {
  if (colors === 'none' || colors === '16') return text;
  const share = level / (HEAT_LEVELS - 1);
  const [red, green, blue] = heatColor(share);
  const ink = share > 0.6 ? 16 : 231;
  const background =
    colors === 'truecolor'
      ? `48;2;${red};${green};${blue}`
      : `48;5;${16 + 36 * sixth(red) + 6 * sixth(green) + sixth(blue)}`;
  return `\u001b[${background}m\u001b[38;5;${ink}m${text}\u001b[39m\u001b[49m`;
}

const sixth = (channel: number): number => Math.round((channel / 255) * 5);

// Control points of matplotlib's "inferno", which is also readable in gray.
const INFERNO = [
  [0, 0, 20],
  [87, 16, 110],
  [188, 55, 84],
  [249, 142, 9],
  [252, 255, 164],
] as const;

function heatColor(share: number): [number, number, number] {
  const position = share * (INFERNO.length - 1);
  const index = Math.min(INFERNO.length - 2, Math.floor(position));
  const [from, to] = [INFERNO[index] ?? INFERNO[0], INFERNO[index + 1] ?? INFERNO[0]];
  const mix = (channel: 0 | 1 | 2): number =>
    Math.round(from[channel] + (to[channel] - from[channel]) * (position - index));
  return [mix(0), mix(1), mix(2)];
}

// Box lines, plot blocks and curve dots, each one cell wide.
const DRAWN = /[\u2500-\u259f\u2800-\u28ff]/gu;

const ASCII: Record<string, string> = {
  '─': '-',
  '│': '|',
  '┌': '+',
  '╭': '+',
  '╮': '+',
  '╰': '+',
  '╯': '+',
  '┴': '+',
  '▕': '[',
  '▏': ']',
  '✓': 'v',
  '✗': 'x',
  '⚠': '!',
  // Before a number, '-' would be taken for its sign.
  '–': '?',
  '┤': '|',
  '●': '*',
  '○': 'o',
  '▸': '>',
  '▁': '_',
  '▂': '_',
  '▃': '.',
  '▄': '-',
  '▅': '-',
  '▆': '=',
  '▇': '=',
  '█': '#',
  '▔': '"',
  '▀': '"',
  '┬': '+',
  '┼': '+',
  '▎': '-',
  '▍': '-',
  '▌': '=',
  '▋': '=',
  '▊': '=',
  '▉': '#',
  '…': '>',
  '·': '.',
  '•': '.',
  '×': 'x',
  Δ: 'd',
  '→': '>',
  '←': '<',
  '↑': '^',
  '↓': 'v',
  // In lists, where 'v' is the mark of a pass.
  '▾': '_',
  '≤': '<',
  '≈': '~',
  '★': '*',
  '≥': '>',
  μ: 'u',
  '›': '>',
  '◆': '#',
  '◇': '@',
};

/**
 * Writes "±" as "+-" and drops the space before it to keep the width. "~" cannot replace it, because that marks
 * modelled figures.
 */
const withMargins = (row: Row): Row =>
  row.map((piece, index) => {
    const text = piece.text.replace(/^±/, '+-').replace(/ ±/g, '+-');
    return row[index + 1]?.text.startsWith('±') ? { ...piece, text: text.replace(/ $/, '') } : { ...piece, text };
  });

/** The same cells in ASCII; a character without a replacement becomes "?". */
export function toAscii(text: string): string {
  // "±" does not become "~" because that marks modelled figures.
  return text
    .replace(/ ±/g, '+-')
    .replace(
      /[^\x20-\x7e]/gu,
      (character) => entryOf(ASCII, character) ?? brailleInk(character) ?? '?'.repeat(cellWidth(character)),
    );
}

/** A cell of a curve by the position of its dots: high, in the middle, low, or both high and low. */
function brailleInk(character: string): string | undefined {
  const bits = (character.codePointAt(0) ?? 0) - 0x2800;
  if (bits < 0 || bits > 0xff) return undefined;
  const [high, middle, low] = [bits & 0x09, bits & 0x36, bits & 0xc0];
  if (high !== 0 && low !== 0) return '|';
  if (low !== 0) return '.';
  if (high !== 0) return "'";
  return middle === 0 ? ' ' : '-';
}
