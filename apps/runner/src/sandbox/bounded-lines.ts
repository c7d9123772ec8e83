import type { Readable } from 'node:stream';

/** Longer lines are split, so that a line without end does not grow in memory. */
export const MAX_LINE_LENGTH = 4096;

/** Calls back with each line of a program's output, and with the rest at its end. */
export function onBoundedLines(stream: Readable, onLine: (line: string) => void): void {
  let rest = '';
  stream.setEncoding('utf8');
  stream.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop()!;
    for (const line of lines) tellInPieces(line, onLine);
    for (; rest.length >= MAX_LINE_LENGTH; rest = rest.slice(MAX_LINE_LENGTH)) onLine(rest.slice(0, MAX_LINE_LENGTH));
  });
  stream.on('end', () => {
    if (rest !== '') onLine(rest);
  });
}

function tellInPieces(line: string, onLine: (line: string) => void): void {
  if (line.length <= MAX_LINE_LENGTH) return onLine(line);
  for (let at = 0; at < line.length; at += MAX_LINE_LENGTH) onLine(line.slice(at, at + MAX_LINE_LENGTH));
}
