/** A drawing of braille dots, eight per cell, with text over it. Curves are drawn on it. */
import { run, type Role, type Row, type Run } from './row.ts';

// Bit of each dot of a braille cell, [row][column].
const DOT_BITS = [
  [0x01, 0x08],
  [0x02, 0x10],
  [0x04, 0x20],
  [0x40, 0x80],
] as const;
const BRAILLE = 0x2800;
const DOTS_PER_COLUMN = 2;
const DOTS_PER_ROW = 4;

interface Cell {
  bits: number;
  text: string | undefined;
  role: Role | undefined;
}

/**
 * `width` cells by `height` rows. Dots are counted from the upper left. The last dot drawn in a cell determines the
 * cell's role.
 */
export class Canvas {
  readonly dotColumns: number;
  readonly dotRows: number;
  readonly #width: number;
  readonly #cells: Cell[];

  constructor({ width, height }: { width: number; height: number }) {
    this.#width = width;
    this.dotColumns = width * DOTS_PER_COLUMN;
    this.dotRows = height * DOTS_PER_ROW;
    this.#cells = Array.from({ length: width * height }, () => ({ bits: 0, text: undefined, role: undefined }));
  }

  dot(x: number, y: number, role: Role): void {
    if (x < 0 || y < 0 || x >= this.dotColumns || y >= this.dotRows) return;
    const cell = this.#cells[Math.floor(y / DOTS_PER_ROW) * this.#width + Math.floor(x / DOTS_PER_COLUMN)];
    if (cell === undefined) return;
    cell.bits |= DOT_BITS[y % DOTS_PER_ROW]?.[x % DOTS_PER_COLUMN] ?? 0;
    cell.role = role;
  }

  /** A straight line. With `step` 2, only every other dot is drawn. */
  line([fromX, fromY]: readonly [number, number], [toX, toY]: readonly [number, number], role: Role, step = 1): void {
    const length = Math.max(1, Math.abs(toX - fromX), Math.abs(toY - fromY));
    for (let at = 0; at <= length; at += step)
      this.dot(
        Math.round(fromX + ((toX - fromX) * at) / length),
        Math.round(fromY + ((toY - fromY) * at) / length),
        role,
      );
  }

  /**
   * Text that starts at a cell, over the drawing. With `gently`, the text appears only in cells where nothing was
   * drawn.
   */
  text(column: number, row: number, text: string, { role, gently = false }: { role: Role; gently?: boolean }): void {
    const start = row * this.#width + column;
    const cells = Array.from(text, (_, index) =>
      column + index < this.#width ? this.#cells[start + index] : undefined,
    );
    if (
      column < 0 ||
      row < 0 ||
      (gently && !cells.every((cell) => cell !== undefined && cell.bits === 0 && cell.text === undefined))
    )
      return;
    Array.from(text).forEach((character, index) => {
      const cell = cells[index];
      if (cell !== undefined) Object.assign(cell, { text: character, role });
    });
  }

  rows(): Row[] {
    const height = this.#cells.length / this.#width;
    return Array.from({ length: height }, (_, row) =>
      mergeRuns(this.#cells.slice(row * this.#width, (row + 1) * this.#width)),
    );
  }
}

function mergeRuns(cells: readonly Cell[]): Row {
  const runs: Run[] = [];
  for (const { bits, text, role } of cells) {
    const character = text ?? (bits === 0 ? ' ' : String.fromCodePoint(BRAILLE + bits));
    const last = runs.at(-1);
    if (last !== undefined && (last.role === role || character === ' '))
      runs[runs.length - 1] = { ...last, text: last.text + character };
    else runs.push(role === undefined ? { text: character } : run(character, role));
  }
  return runs;
}
