/**
 * Makes foreign text harmless for a terminal: output of compilers, kernels and tools, manifests, texts of other
 * clients.
 */

/** Control characters that are kept: only tabs, or tabs and newlines. */
type KeptControls = 'tab' | 'tab-and-newline';

/**
 * Cleans one line. Removes control characters (C0, C1), escape sequences with their arguments, characters that change
 * the writing direction, and characters that are invisible to people but read by a model. Tabs stay. Tokens of a runner
 * are redacted. Takes linear time. If an escape sequence never ends, the rest of its line belongs to it and is removed.
 */
export const plainLine = (text: string): string => clean(text, 'tab');

/** `plainLine` for texts of several lines: newlines stay. */
export const plainText = (text: string): string => clean(text, 'tab-and-newline');

// C0 except the tab, DEL, C1, bidirectional marks, embeddings, overrides and isolates (Unicode TR 9), line and
// paragraph separators, zero-width spaces, halves of surrogate pairs.
const SUSPECT = /[\0-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]/;
// First halves of U+E0000 to U+E03FF: tag letters and variation selectors, which can hide a whole text.
const TAGS = 0xdb40;

const BEL = 0x07;
const NEWLINE = 0x0a;
const CANCEL = 0x18;
const SUBSTITUTE = 0x1a;
const ESCAPE = 0x1b;
const CSI = 0x9b;
const STRING_TERMINATOR = 0x9c;

function clean(text: string, keep: KeptControls): string {
  if (!SUSPECT.test(text)) return withoutTokens(text);
  const parts: string[] = [];
  let kept = 0;
  let at = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (!isControl(code) || (code === NEWLINE && keep === 'tab-and-newline')) {
      at += 1;
      continue;
    }
    parts.push(text.slice(kept, at));
    at = endOfControl(text, at);
    kept = at;
  }
  parts.push(text.slice(kept));
  return withoutTokens(parts.join('').toWellFormed());
}

/** Whether a UTF-16 unit starts something that must be removed. */
function isControl(code: number): boolean {
  if (code < 0x20) return code !== 0x09;
  if (code < 0x7f) return false;
  if (code <= 0x9f) return true;
  if (code === 0x061c || code === 0x200b || code === 0x200e || code === 0x200f || code === 0xfeff) return true;
  return (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x2069) || code === TAGS;
}

/** End of the sequence that a control character starts (ECMA-48, section 5). */
function endOfControl(text: string, at: number): number {
  const code = text.charCodeAt(at);
  if (code === TAGS) return isBetween(text.charCodeAt(at + 1), 0xdc00, 0xdfff) ? at + 2 : at + 1;
  if (code === CSI) return endOfSequence(text, at + 1);
  if (isStringOpener(code - 0x40)) return endOfString(text, at + 1);
  if (code !== ESCAPE) return at + 1;
  const second = text.charCodeAt(at + 1);
  if (second === 0x5b) return endOfSequence(text, at + 2);
  if (isStringOpener(second)) return endOfString(text, at + 2);
  // Intermediate bytes, then a final byte: "ESC ( B" chooses a character set.
  let end = at + 1;
  while (isBetween(text.charCodeAt(end), 0x20, 0x2f)) end += 1;
  return isBetween(text.charCodeAt(end), 0x30, 0x7e) ? end + 1 : end;
}

/** DCS "P", SOS "X", OSC "]", PM "^" and APC "_" as the second byte after ESC. */
const isStringOpener = (byte: number): boolean =>
  byte === 0x50 || byte === 0x58 || byte === 0x5d || byte === 0x5e || byte === 0x5f;

const isBetween = (code: number, least: number, most: number): boolean => code >= least && code <= most;

/**
 * Position after the parameters, intermediates and final byte of a control sequence; any other character ends it early.
 */
function endOfSequence(text: string, from: number): number {
  let end = from;
  while (isBetween(text.charCodeAt(end), 0x20, 0x3f)) end += 1;
  return isBetween(text.charCodeAt(end), 0x40, 0x7e) ? end + 1 : end;
}

/**
 * Position after a control string's terminator. A newline also ends the string, so a broken one removes only its line.
 */
function endOfString(text: string, from: number): number {
  for (let end = from; end < text.length; ++end) {
    const code = text.charCodeAt(end);
    if (code === NEWLINE || code === ESCAPE)
      return code === ESCAPE && text.charCodeAt(end + 1) === 0x5c ? end + 2 : end;
    if (code === BEL || code === STRING_TERMINATOR || code === CANCEL || code === SUBSTITUTE) return end + 1;
  }
  return text.length;
}

/** The message of a thrown value. */
export const errorText = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Formats a text as one word of a POSIX shell: unchanged if it needs no quotes, else in single quotes. */
export const shellWord = (text: string): string =>
  /^[\w./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** Begins every token of a runner, so that it can be recognized in a text. */
export const TOKEN_PREFIX = 'fct_';

/** Characters of a token after its prefix: 256 bits in base64url. */
const TOKEN = new RegExp(`${TOKEN_PREFIX}[\\w-]{43}`, 'g');

/** Replaces tokens in a text, for logs and events: a client may have put one into a label, a source or a printf. */
export const withoutTokens = (text: string): string =>
  text.includes(TOKEN_PREFIX) ? text.replace(TOKEN, `${TOKEN_PREFIX}[redacted]`) : text;

/** Lines of at most `width` characters, broken at spaces. */
export function wrapped(text: string, width: number): string[] {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1)!;
    if (line !== '' && line.length + word.length >= width) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines;
}
