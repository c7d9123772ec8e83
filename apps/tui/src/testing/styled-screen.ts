/**
 * The content and styles of a terminal's screen. Styles are given for runs of cells, so that people can read the
 * goldens.
 */
import type { Terminal } from '@xterm/headless';

type Cell = NonNullable<ReturnType<NonNullable<ReturnType<Terminal['buffer']['active']['getLine']>>['getCell']>>;

const NAMES = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];

/** One line per row with any style, such as "  3  1-12 bold cyan, 40-41 dim". Cells are counted from 1. */
export function styleRows(terminal: Terminal): string[] {
  const { active } = terminal.buffer;
  return Array.from({ length: terminal.rows }, (_, row) => {
    const line = active.getLine(active.viewportY + row);
    const styles = Array.from({ length: terminal.cols }, (__, column) => styleOf(line?.getCell(column)));
    const text = runsOf(styles).join(', ');
    return text === '' ? '' : `${String(row + 1).padStart(3)}  ${text}`;
  });
}

/** A blank cell without a visible style. A run continues across it. */
const BLANK = ' ';

function styleOf(cell: Cell | undefined): string {
  if (cell === undefined) return BLANK;
  const background = cell.isBgDefault() ? '' : `on ${colour(cell.getBgColor(), cell.isBgRGB())}`;
  const inverse = cell.isInverse() !== 0 ? 'inverse' : '';
  if (cell.getChars().trim() === '') return [inverse, background].filter(Boolean).join(' ') || BLANK;
  const foreground = cell.isFgDefault() ? '' : colour(cell.getFgColor(), cell.isFgRGB());
  const attributes = [
    [cell.isBold(), 'bold'],
    [cell.isDim(), 'dim'],
    [cell.isUnderline(), 'underlined'],
  ]
    .filter(([on]) => on !== 0)
    .map(([, name]) => name);
  return [...attributes, foreground, inverse, background].filter(Boolean).join(' ');
}

const colour = (value: number, isRgb: boolean): string =>
  isRgb ? `#${value.toString(16).padStart(6, '0')}` : (NAMES[value] ?? `colour ${value}`);

function runsOf(styles: readonly string[]): string[] {
  const runs: string[] = [];
  for (let from = 0; from < styles.length; from += 1) {
    const style = styles[from];
    if (!style || style === BLANK) continue;
    const end = styles.findIndex((each, at) => at > from && each !== style && each !== BLANK);
    const to = styles.lastIndexOf(style, end === -1 ? styles.length - 1 : end - 1);
    runs.push(`${from === to ? from + 1 : `${from + 1}-${to + 1}`} ${style}`);
    from = to;
  }
  return runs;
}
