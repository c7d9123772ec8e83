/**
 * A fast path through Ink's Output, which lays every cell of a frame out anew, style by style, to let boxes overlap.
 * Here rows stand beside each other and never overlap: then a line of the frame is its pieces in order with spaces
 * between. Anything else (overlaps, clipped or wide or several-line text) goes Ink's own way. tools/fast-ink.mjs puts
 * it in place, for the build and for tests; 45 % of the time of a frame before.
 */
import stringWidth from './string-width.ts';

interface Clip {
  readonly x1: number | undefined;
  readonly x2: number | undefined;
  readonly y1: number | undefined;
  readonly y2: number | undefined;
}

type Transformer = (line: string, index: number) => string;

interface Frame {
  readonly output: string;
  readonly height: number;
}

/** What Ink's renderer asks of its Output. */
export interface InkOutput {
  write(x: number, y: number, text: string, options: { transformers: readonly Transformer[] }): void;
  clip(clip: Clip): void;
  unclip(): void;
  get(): Frame;
}

export type InkOutputClass = new (size: { width: number; height: number }) => InkOutput;

interface Piece {
  readonly x: number;
  readonly end: number;
  readonly text: string;
}

/** Ink's Output with the fast path before it. */
export function withRowFastPath(Original: InkOutputClass): InkOutputClass {
  return class RowOutput implements InkOutput {
    readonly #slow: InkOutput;
    readonly #size: { width: number; height: number };
    readonly #lines: Piece[][];
    readonly #clips: Clip[] = [];
    #simple = true;

    constructor(size: { width: number; height: number }) {
      this.#slow = new Original(size);
      this.#size = size;
      this.#lines = Array.from({ length: size.height }, () => []);
    }

    write(x: number, y: number, text: string, options: { transformers: readonly Transformer[] }): void {
      this.#slow.write(x, y, text, options);
      if (this.#simple && text !== '') this.#simple = this.#place(x, y, text, options.transformers);
    }

    clip(clip: Clip): void {
      this.#slow.clip(clip);
      this.#clips.push(clip);
    }

    unclip(): void {
      this.#slow.unclip();
      this.#clips.pop();
    }

    get(): Frame {
      if (!this.#simple) return this.#slow.get();
      return { output: this.#lines.map(joinPieces).join('\n'), height: this.#size.height };
    }

    /** False when this piece needs the slow way. */
    #place(x: number, y: number, text: string, transformers: readonly Transformer[]): boolean {
      const line = this.#lines[y];
      const end = x + stringWidth(text);
      if (line === undefined || text.includes('\n') || x < (line.at(-1)?.end ?? 0) || end > this.#size.width)
        return false;
      if (!this.#clips.every((clip) => isInside(clip, { x, end, y }))) return false;
      line.push({ x, end, text: transformers.reduce((styled, transform) => transform(styled, 0), text) });
      return true;
    }
  };
}

interface Stretch {
  x: number;
  end: number;
  y: number;
}

const isInside = (
  { x1 = -Infinity, x2 = Infinity, y1 = -Infinity, y2 = Infinity }: Clip,
  { x, end, y }: Stretch,
): boolean => x >= x1 && end <= x2 && y >= y1 && y < y2;

function joinPieces(pieces: readonly Piece[]): string {
  let line = '';
  let cells = 0;
  for (const { x, end, text } of pieces) {
    line += ' '.repeat(x - cells) + text;
    cells = end;
  }
  return line.trimEnd();
}
