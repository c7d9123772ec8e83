/**
 * A fast path for Ink's Output, which lays out every cell of a frame style by style so that boxes can overlap. Rows in
 * this program never overlap, so a line of the frame consists of its pieces in order, with spaces between them. Other
 * content (overlaps; clipped, wide or multi-line text) still uses Ink's own code. tools/fast-ink.mjs installs the fast
 * path in the build and in tests. Ink's code took 45 % of a frame's time.
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

/** The part of Output that Ink's renderer uses. */
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

/** Ink's Output, which takes the fast path if it can. */
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

    /** Places a piece. Returns false if the piece needs Ink's own code. */
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

// Enough for a few frames of a large screen.
const MOST_TEXTS = 512;

/**
 * Caches answers for recent texts, because most rows of a frame also occurred in the previous frame. tools/fast-ink.mjs
 * adds this to Ink. `answer` must be pure.
 */
export function remembered(answer: (text: string) => string): (text: string) => string {
  let young = new Map<string, string>();
  let old = new Map<string, string>();
  return (text) => {
    const known = young.get(text);
    if (known !== undefined) return known;
    const given = old.get(text) ?? answer(text);
    if (young.size >= MOST_TEXTS) [young, old] = [new Map<string, string>(), young];
    young.set(text, given);
    return given;
  };
}
