/** Text measured in terminal cells: width, cutting, padding, wrapping. Knows nothing about styles. */
import { plainLine } from '@flashcore/shared/text';
import type { CodeFrame } from '@flashcore/shared/contract';
import stringWidth from '../../terminal/string-width.ts';

// Characters that are one cell wide. A text that contains only these can be cut by counting characters.
const ONE_CELL_EACH =
  /^[\x20-\x7e\u2500-\u259f\u2800-\u28ff\u25cf\u25cb\u25b8\u2713\u2717\u2190-\u2193\u0394\u03bc\u00b1\u00b7\u00d7\u2026\u2264\u2265\u203a]*$/;
const PLAIN = /^[\x20-\x7e]*$/;

/** Number of cells of `text`, which must be sanitized. */
export function cellWidth(text: string): number {
  return stringWidth(text);
}

/**
 * Makes text from a compiler or a kernel safe to show. Tabs become spaces; escape sequences and control characters are
 * removed.
 */
export function sanitize(text: string): string {
  return PLAIN.test(text) ? text : plainLine(text).replaceAll('\t', '  ').normalize('NFC');
}

/** Cuts `text` to at most `width` cells; a cut text ends in "…". */
export function cutCells(text: string, width: number): string {
  if (width <= 0) return '';
  if (cellWidth(text) <= width) return text;
  return `${takeCells(text, width - 1)}…`;
}

/** Cuts `text` at the end of a word; inside a word only if that would leave less than half of the width. */
export function cutWords(text: string, width: number): string {
  if (cellWidth(text) <= width) return text;
  const head = takeCells(text, width - 1);
  const end = text[head.length] === ' ' ? head.length : head.lastIndexOf(' ');
  return end < width / 2 ? cutCells(text, width) : `${head.slice(0, end).trimEnd()}…`;
}

/** The longest beginning of `text` that fits into `width` cells; no ellipsis. */
export function takeCells(text: string, width: number): string {
  if (ONE_CELL_EACH.test(text)) return text.slice(0, Math.max(0, width));
  let taken = '';
  let cells = 0;
  graphemes ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' });
  for (const { segment } of graphemes.segment(text)) {
    cells += stringWidth(segment);
    if (cells > width) break;
    taken += segment;
  }
  return taken;
}

// Created on first use, because Node then reads its language tables, which takes 9 ms of processor time.
let graphemes: Intl.Segmenter | undefined;

/** Exactly `width` cells: cut with "…" or padded with spaces. */
export function padCells(text: string, width: number, align: 'left' | 'right' | 'center' = 'left'): string {
  const cut = cutCells(text, width);
  const missing = Math.max(0, width - cellWidth(cut));
  if (align === 'right') return ' '.repeat(missing) + cut;
  const before = align === 'center' ? Math.floor(missing / 2) : 0;
  return ' '.repeat(before) + cut + ' '.repeat(missing - before);
}

/**
 * Breaks `text` into lines of at most `width` cells, at spaces if possible, otherwise inside a word. Drops no
 * characters except spaces at a break.
 */
export function wrapCells(text: string, width: number): string[] {
  if (width <= 0) return [];
  const lines: string[] = [];
  for (const paragraph of text.split('\n')) lines.push(...wrapParagraph(paragraph, width));
  return lines;
}

function wrapParagraph(paragraph: string, width: number): string[] {
  const lines: string[] = [];
  let rest = paragraph;
  while (cellWidth(rest) > width) {
    const head = takeCells(rest, width);
    const breakable = rest[head.length] === ' ' ? head.length : head.lastIndexOf(' ');
    // A break in the first third would leave a ragged column of short lines, so long paths and flags are cut at the
    // edge instead.
    const end = breakable > width / 3 ? breakable : Math.max(1, head.length);
    lines.push(rest.slice(0, end).trimEnd());
    rest = rest.slice(end).trimStart();
  }
  return [...lines, rest];
}

/** A line of source around a place, in the form in which compilers show it. */
export interface FrameLine {
  /** For example "10 │ " or "11 ▸ ". */
  readonly gutter: string;
  readonly text: string;
  readonly kind: 'meant' | 'around' | 'caret';
}

/** Most characters that are shown after a column to which the lines are shifted. */
const AFTER_COLUMN = 20;

/**
 * The frame's lines in at most `width` cells, shifted to the left if the column would be cut off. If the column is
 * known, a caret is below the line; otherwise a mark is in the gutter. A color instead of a mark would be lost on
 * screens without colors.
 */
export function frameLines({ line, column, firstLine, lines }: CodeFrame, width: number): FrameLine[] {
  const cells = String(firstLine + lines.length - 1).length;
  const gutterCells = cells + 3;
  const room = Math.max(1, width - gutterCells);
  // The line of the column decides, so that the lines stay aligned with each other.
  const longest = lines[line - firstLine]?.length ?? 0;
  const after = Math.min(AFTER_COLUMN, Math.floor(room / 2));
  const shift = column < room ? 0 : Math.max(0, Math.min(column + after, Math.max(longest, column)) - room);
  return lines.flatMap((text, index): FrameLine[] => {
    const number = firstLine + index;
    const isMeant = number === line;
    const hasCaret = isMeant && column > 0 && column - shift <= room;
    const shown: FrameLine = {
      gutter: `${String(number).padStart(cells)} ${isMeant && !hasCaret ? '▸' : '│'} `,
      text: cutCells(shifted(text, shift), room),
      kind: isMeant ? 'meant' : 'around',
    };
    return hasCaret
      ? [shown, { gutter: `${' '.repeat(cells)} │ `, text: `${' '.repeat(column - shift - 1)}^`, kind: 'caret' }]
      : [shown];
  });
}

/** The text without its first characters, with an ellipsis for them unless they are only spaces. */
const shifted = (text: string, characters: number): string =>
  characters === 0 || text.slice(0, characters + 1).trim() === ''
    ? text.slice(characters)
    : `…${text.slice(characters + 1)}`;

/**
 * Lines of at most `width` cells, broken at spaces. A longer word is broken at the end of the line, or left whole if
 * `uncut` is set.
 */
export function wrapWords(text: string, width: number, uncut = false): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(/\s+/).map(sanitize)) {
    if (line !== '' && cellWidth(line) + 1 + cellWidth(word) <= width) {
      line += ` ${word}`;
      continue;
    }
    if (line !== '') lines.push(line);
    line = uncut ? word : cutWord(word, width, lines);
  }
  return line === '' ? lines : [...lines, line];
}

/** Moves whole lines of an overlong word into `lines` and returns the rest. */
function cutWord(word: string, width: number, lines: string[]): string {
  let rest = word;
  while (cellWidth(rest) > width) {
    const head = takeCells(rest, width) || rest.slice(0, 1);
    lines.push(head);
    rest = rest.slice(head.length);
  }
  return rest;
}
