/** Draws rows as an SVG picture, colored by role, for issues and reports. */
import { entryOf } from '@flashcore/shared/text';
import { cellWidth } from './cell-text.ts';
import { HEAT_LEVELS, type Role, type Row } from './row.ts';

const CELL_WIDTH = 8.4;
const CELL_HEIGHT = 18;
const MARGIN = 8;

const COLORS: Record<Role, string> = {
  text: '#d8dee9',
  dim: '#7b8494',
  title: '#ffffff',
  accent: '#88c0d0',
  good: '#a3be8c',
  bad: '#ff6b76',
  warn: '#ebcb8b',
  border: '#5a6374',
  focus: '#88c0d0',
  key: '#ffffff',
  match: '#ebcb8b',
  simulated: '#ebcb8b',
  bar: '#88c0d0',
  barAlternative: '#b48ead',
  axis: '#7b8494',
};
const BACKGROUND = '#14181f';

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };
const escape = (text: string): string =>
  text.replace(/[&<>]/g, (character) => entryOf(ENTITIES, character) ?? character);

/** A picture that is `width` cells wide, with one line per row. */
export function rowsToSvg(rows: readonly Row[], width: number): string {
  const [pictureWidth, pictureHeight] = [width * CELL_WIDTH + 2 * MARGIN, rows.length * CELL_HEIGHT + 2 * MARGIN];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${pictureWidth.toFixed(0)}" height="${pictureHeight}" font-family="ui-monospace, 'DejaVu Sans Mono', monospace" font-size="14">`,
    `<rect width="100%" height="100%" fill="${BACKGROUND}"/>`,
    ...rows.flatMap((row, index) => rowToSvg(row, MARGIN + index * CELL_HEIGHT)),
    '</svg>\n',
  ].join('\n');
}

function rowToSvg(row: Row, top: number): string[] {
  let cells = 0;
  return row.flatMap(({ text, role = 'text', heat, isInk = false }) => {
    const [left, length] = [MARGIN + cells * CELL_WIDTH, cellWidth(text) * CELL_WIDTH];
    cells += cellWidth(text);
    const behind =
      heat === undefined
        ? []
        : [
            `<rect x="${left.toFixed(1)}" y="${top}" width="${length.toFixed(1)}" height="${CELL_HEIGHT}" fill="#ff8c42" fill-opacity="${(heat / (HEAT_LEVELS - 1)).toFixed(2)}"/>`,
          ];
    if (text.trim() === '' || isInk) return behind;
    // textLength keeps the cells aligned in any font.
    return [
      ...behind,
      `<text x="${left.toFixed(1)}" y="${top + 14}" textLength="${length.toFixed(1)}" fill="${COLORS[role]}" xml:space="preserve">${escape(text)}</text>`,
    ];
  });
}
