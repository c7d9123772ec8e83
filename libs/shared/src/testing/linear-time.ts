/** Measures how the processor time of a piece of work grows with the length of a text. */
import { cpuMs } from '../text/deadline.ts';

// The longer text is about as long as the longest manifest.
const SHORT = 4_000;
const LONG = 8 * SHORT;
const TRIES = 8;
// A text that is eight times longer may take sixteen times as long (caches, garbage collection), but not 64 times, like
// a quadratic scan.
const MOST_GROWTH = 16;
/** Figures below this are noise. */
const FLOOR_MS = 12;

/**
 * Undefined if `read` takes linear time in the length of the texts that `textOf` makes; otherwise describes the times.
 * `read` may also throw: only its time counts.
 */
export function growth(textOf: (length: number) => string, read: (text: string) => unknown): string | undefined {
  const short = leastMs(textOf(SHORT), read);
  if (short > 2_000) return `${SHORT} characters took ${short.toFixed(0)} ms`;
  const long = leastMs(textOf(LONG), read);
  const allowed = MOST_GROWTH * Math.max(short, FLOOR_MS / 4);
  return long <= Math.max(FLOOR_MS, allowed)
    ? undefined
    : `${SHORT} characters took ${short.toFixed(1)} ms, ${LONG} took ${long.toFixed(1)} ms`;
}

/** The repeated pieces of text that `read` does not read in linear time, each with its times. */
export const slowPieces = (read: (text: string) => unknown): string[] =>
  REPEATED.flatMap((piece) => {
    const found = growth((length) => piece.repeat(Math.ceil(length / piece.length)).slice(0, length), read);
    return found === undefined ? [] : [`${JSON.stringify(piece)}: ${found}`];
  });

function leastMs(text: string, read: (text: string) => unknown): number {
  let least = Infinity;
  for (let attempt = 0; attempt < TRIES && least > FLOOR_MS / 4; ++attempt) {
    const started = cpuMs();
    try {
      read(text);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
    }
    least = Math.min(least, cpuMs() - started);
  }
  return least;
}

/** Pieces whose repetition has frozen some scanner before, in this project or elsewhere. */
export const REPEATED = [
  '\r',
  ' ',
  '\t',
  '\\ ',
  '\\\n',
  '"',
  "'",
  '/*',
  '//',
  '(',
  '[',
  '{',
  '1',
  "1'",
  'a',
  'R"(',
  '#',
  '#include "',
  '#line 1 "',
  '# 1 ',
  '\n#\r',
  'extern __shared__ ',
  '__shared__ a b[',
  '__shared__ volatile ',
  'constexpr int x =',
  'constexpr int x = 1 + ',
  '.include ',
  '.incbin',
  ':1',
  '(1',
  ': error',
  'invalid input constraint ',
  '\u001b[',
  '\u001b]',
  '\u202e',
  'kernels/',
  'ptxas info : ',
  '"a",',
  '""',
  'a: ',
  '- ',
  '&a ',
  '*a,',
  '[a, ',
  '? ',
  '!!',
  '%',
  '|\n ',
  'x1',
  '1e',
];
