import { cellWidth, sanitize, takeCells } from '../cells/cell-text.ts';

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
