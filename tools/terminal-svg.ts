/** Draws a terminal's screen as an SVG picture, cell by cell. */
import type { Terminal } from './terminal.ts';

const CELL_WIDTH = 8.4;
const CELL_HEIGHT = 17;
const FONT_SIZE = 14;
const MARGIN = 12;
const BACKGROUND = '#14161b';
const FOREGROUND = '#d5d8de';
// The terminal palette's 16 colors. A picture needs fixed colors.
const PALETTE = [
  '#1d2027',
  '#e06c75',
  '#98c379',
  '#e5c07b',
  '#61afef',
  '#c678dd',
  '#56b6c2',
  '#abb2bf',
  '#5c6370',
  '#ff7b86',
  '#b5e890',
  '#ffd68a',
  '#82c4ff',
  '#dd9bf5',
  '#7fdbe6',
  '#ffffff',
];

interface Run {
  text: string;
  column: number;
  width: number;
  foreground: string;
  background: string;
  bold: boolean;
  dim: boolean;
}

export function terminalSvg(terminal: Terminal): string {
  const { cols, rows } = terminal.screen;
  const width = cols * CELL_WIDTH + 2 * MARGIN;
  const height = rows * CELL_HEIGHT + 2 * MARGIN;
  const body = Array.from({ length: rows }, (_, row) =>
    rowRuns(terminal, row)
      .map((run) => runSvg(run, row))
      .join(''),
  ).join('\n');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="${FONT_SIZE}">
<rect width="${width}" height="${height}" rx="8" fill="${BACKGROUND}"/>
${body}
</svg>
`;
}

/** Joins adjacent cells with the same style into runs. */
function rowRuns(terminal: Terminal, row: number): Run[] {
  const { active } = terminal.screen.buffer;
  const line = active.getLine(active.viewportY + row);
  const runs: Run[] = [];
  for (let column = 0; line && column < terminal.screen.cols; column += 1) {
    const cell = line.getCell(column);
    if (!cell || cell.getWidth() === 0) continue;
    const style = cellStyle(cell);
    const last = runs.at(-1);
    const text = cell.getChars() || ' ';
    if (last && last.column + last.width === column && sameStyle(last, style)) {
      last.text += text;
      last.width += cell.getWidth();
    } else {
      runs.push({ text, column, width: cell.getWidth(), ...style });
    }
  }
  return runs;
}

type Cell = NonNullable<
  ReturnType<NonNullable<ReturnType<Terminal['screen']['buffer']['active']['getLine']>>['getCell']>
>;
type Style = Pick<Run, 'foreground' | 'background' | 'bold' | 'dim'>;

function cellStyle(cell: Cell): Style {
  const foreground = cell.isFgDefault() ? FOREGROUND : colour(cell.getFgColor(), cell.isFgRGB());
  const background = cell.isBgDefault() ? BACKGROUND : colour(cell.getBgColor(), cell.isBgRGB());
  const inverse = cell.isInverse() !== 0;
  return {
    foreground: inverse ? background : foreground,
    background: inverse ? foreground : background,
    bold: cell.isBold() !== 0,
    dim: cell.isDim() !== 0,
  };
}

function sameStyle(a: Style, b: Style): boolean {
  return a.foreground === b.foreground && a.background === b.background && a.bold === b.bold && a.dim === b.dim;
}

function colour(value: number, isRgb: boolean): string {
  if (isRgb) return hex(value);
  if (value < 16) return PALETTE[value]!;
  if (value >= 232) return hex((8 + (value - 232) * 10) * 0x010101);
  // The 6 x 6 x 6 cube of the 256-color palette.
  const level = (index: number) => (index === 0 ? 0 : 55 + index * 40);
  const cube = value - 16;
  return hex((level(Math.floor(cube / 36)) << 16) | (level(Math.floor(cube / 6) % 6) << 8) | level(cube % 6));
}

function hex(value: number): string {
  return `#${value.toString(16).padStart(6, '0')}`;
}

function runSvg(run: Run, row: number): string {
  const x = (MARGIN + run.column * CELL_WIDTH).toFixed(1);
  const y = MARGIN + row * CELL_HEIGHT;
  const width = (run.width * CELL_WIDTH).toFixed(1);
  const box =
    run.background === BACKGROUND
      ? ''
      : `<rect x="${x}" y="${y}" width="${width}" height="${CELL_HEIGHT}" fill="${run.background}"/>`;
  if (run.text.trim() === '') return box;
  const weight = run.bold ? ' font-weight="bold"' : '';
  const opacity = run.dim ? ' opacity="0.6"' : '';
  // textLength keeps the columns aligned if a viewer's font is narrower or wider than ours.
  return `${box}<text x="${x}" y="${y + FONT_SIZE - 1}" fill="${run.foreground}" xml:space="preserve" textLength="${width}" lengthAdjust="spacingAndGlyphs"${weight}${opacity}>${escapeXml(run.text)}</text>`;
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
