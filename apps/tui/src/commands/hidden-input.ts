import type { InputStream, TextStream } from './context.ts';
import { UsageError } from '../exit-code.ts';

const ENTER = /[\r\n\u0004]/;
const CTRL_C = '\u0003';
const ERASE = /[\u007f\b]/;

/**
 * Reads a secret without showing it: the first line from a pipe, or text typed at a prompt. Throws UsageError if the
 * user cancels.
 */
export async function readSecret(prompt: string, stdin: InputStream, stderr: TextStream): Promise<string> {
  if (!stdin.isTTY) return firstLine(stdin);
  stderr.write(prompt);
  stdin.setRawMode?.(true);
  try {
    return await typed(stdin);
  } finally {
    stdin.setRawMode?.(false);
    stderr.write('\n');
  }
}

/** The first line that a pipe sends or a person types. */
export async function firstLine(stdin: InputStream): Promise<string> {
  let text = '';
  for await (const piece of pieces(stdin)) {
    text += piece;
    if (text.includes('\n')) break;
  }
  return text.split('\n', 1)[0]!.trim();
}

async function typed(stdin: InputStream): Promise<string> {
  let text = '';
  for await (const piece of pieces(stdin)) {
    for (const character of piece) {
      if (character === CTRL_C) throw new UsageError('No token was typed: left by Ctrl-C');
      if (ENTER.test(character)) return text.trim();
      text = ERASE.test(character) ? text.slice(0, -1) : text + character;
    }
  }
  return text.trim();
}

async function* pieces(stdin: InputStream): AsyncGenerator<string> {
  if (!stdin[Symbol.asyncIterator]) return;
  for await (const piece of stdin as AsyncIterable<string | Buffer>) yield piece.toString();
}
