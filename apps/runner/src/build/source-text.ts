/**
 * Reads a source file as the preprocessor does when it looks for directives: after translation phases 1 to 3 of C++17
 * ([lex.phases]).
 */
import { entryOf } from '@flashcore/shared/text';
export interface SourceText {
  /**
   * The source with continued lines joined and each comment replaced by a space. Newlines in raw strings become spaces,
   * so that each line of `code` is one line for the preprocessor.
   */
  code: string;
  /**
   * String literals as the compiler joins them (phases 5 and 6): adjacent literals merged, escapes resolved. `index` is
   * the start of the first literal in `code`.
   */
  strings: readonly { index: number; text: string }[];
  /** Places where a compiler may read the text differently, so that a directive could be hidden there. */
  doubts: readonly { line: number; reason: string }[];
  /** The file's line number, from 1, for an index into `code`. */
  lineAt: (index: number) => number;
}

/** Reads a source in time and memory proportional to its length. It never throws: ambiguous text becomes a doubt. */
export function readSourceText(text: string): SourceText {
  return new Reader(text).read();
}

// GCC and clang also accept white space between the backslash and the newline of a continued line. Neither reads
// trigraphs in C++17.
const SPLICE = /\\[ \t\f\v\0]*\r?\n/g;
// The start of a comment; a number, which may contain ' as a separator; a word, along with the quote that it may be the
// prefix of; a quote.
const INTERESTING = /\/\/|\/\*|\.?\d(?:[eEpP][+-]|'?[\w$]|\.)*|[\w$\u0080-\uffff]+"?|["']/g;
const STRING = /"(?:[^"\\\n]|\\[^\n])*"?|'(?:[^'\\\n]|\\[^\n])*'?/y;
const RAW_PREFIX = /^(?:u8|[uUL])?R$/;
const RAW_HEAD = /"([^\s()\\]{0,16})\(/y;
const NOT_ASCII = /[^\0-\x7f]/;
const LEADING_SPACE = /^[\s\0]+/;
/** More doubts than this would say nothing new, and finding the line of each takes time. */
const MAX_DOUBTS = 8;

class Reader {
  readonly #original: string;
  readonly #joined: string;
  /** Ends of splices, each as a position in the joined text and in the original text. */
  readonly #splices: { joined: number; original: number }[] = [];
  readonly #parts: string[] = [];
  /** Position in the joined text up to which `code` is written. */
  #written = 0;
  #length = 0;
  /** Positions from which `code` and the joined text correspond again. */
  readonly #marks: { code: number; joined: number }[] = [{ code: 0, joined: 0 }];
  readonly #strings: { index: number; text: string }[] = [];
  /** The text since the last string literal, without white space; only its first characters are kept. */
  #sinceString = '-';
  readonly #doubts: { line: number; reason: string }[] = [];
  /** The current line of `code`: its first two characters, and whether a "<" is still open in it. */
  #line = { head: '', angle: false };

  constructor(text: string) {
    this.#original = text;
    let removed = 0;
    this.#joined = text.replace(SPLICE, (splice, index: number) => {
      this.#splices.push({ joined: index - removed, original: index + splice.length });
      removed += splice.length;
      return '';
    });
  }

  read(): SourceText {
    const text = this.#joined;
    let at = 0;
    const loneReturn = text.search(/\r(?!\n)/);
    if (loneReturn >= 0)
      this.#doubt('a carriage return without a newline ends a line for some compilers only', loneReturn);
    while (at < text.length) {
      INTERESTING.lastIndex = at;
      const found = INTERESTING.exec(text);
      if (!found) break;
      at = this.#token(found[0], found.index);
    }
    this.#writeTo(text.length);
    const code = this.#parts.join('');
    return { code, strings: this.#strings, doubts: this.#doubts, lineAt: (index) => this.#lineAt(index) };
  }

  /** Handles comments and string literals, and returns where the next token begins. */
  #token(token: string, at: number): number {
    if (token === '//') return this.#skip(at, endOf(this.#joined, '\n', at), '', 'comment');
    if (token === '/*') return this.#skip(at, endOf(this.#joined, '*/', at + 2, 2), ' ', 'comment');
    if (token === '"' || token === "'") return this.#string(at);
    if (!token.endsWith('"')) return at + token.length;
    const word = token.slice(0, -1);
    const afterQuote = at > 0 && /["']/.test(this.#joined[at - 1]!);
    if (RAW_PREFIX.test(word) && !afterQuote) return this.#rawString(at, at + word.length);
    if (word.endsWith('R') && (afterQuote || NOT_ASCII.test(word)))
      this.#doubt('what stands before a raw string must be white space or a punctuator', at);
    return at + word.length;
  }

  #string(at: number): number {
    STRING.lastIndex = at;
    const [literal] = STRING.exec(this.#joined)!;
    if (literal.startsWith("'")) return at + literal.length;
    this.#writeTo(at);
    this.#keep(unescaped(literal.slice(1, literal.length > 1 && literal.endsWith('"') ? -1 : undefined)));
    this.#writeTo(at + literal.length);
    this.#sinceString = '';
    return at + literal.length;
  }

  /**
   * Inside a raw string, a backslash before a newline does not continue the line (phase 3), so the string's end is
   * looked up in the original text.
   */
  #rawString(at: number, quote: number): number {
    RAW_HEAD.lastIndex = this.#originalAt(quote);
    const head = RAW_HEAD.exec(this.#original);
    if (!head) {
      this.#doubt('a raw string needs a delimiter of at most 16 characters and a "("', at);
      return quote;
    }
    const begin = RAW_HEAD.lastIndex;
    const end = endOf(this.#original, `)${head[1]}"`, begin);
    if (end === this.#original.length) this.#doubt('a raw string must end', at);
    const past = Math.min(this.#original.length, end + head[1]!.length + 2);
    this.#writeTo(at);
    this.#keep(this.#original.slice(begin, end));
    const next = this.#skip(
      at,
      this.#joinedAt(past),
      this.#original.slice(this.#originalAt(at), past).replaceAll('\n', ' '),
      'raw string',
    );
    this.#sinceString = '';
    return next;
  }

  /** Appends a string literal to the previous one if only white space and a prefix are between them. */
  #keep(text: string): void {
    const last = this.#strings.at(-1);
    if (last && /^(?:u8|[uUL])?$/.test(this.#sinceString)) last.text += text;
    else this.#strings.push({ index: this.#length, text });
  }

  /** Writes `text` to `code` instead of the joined text from `at` to `end`. */
  #skip(at: number, end: number, text: string, what: string): number {
    this.#writeTo(at);
    // After a "<" of #include or __has_include, compilers may see neither a comment nor a raw string, and GCC ends some
    // directives within a raw string. A comment or raw string that ends on its own line is harmless in either reading.
    const perhapsNone = this.#line.angle || what === 'raw string';
    if (perhapsNone && /^(?:#|%:)/.test(this.#line.head) && this.#joined.slice(at, end).includes('\n'))
      this.#doubt(
        `a ${what} that begins ${this.#line.angle ? 'after a "<" of' : 'in'} a directive must end on its line`,
        at,
      );
    this.#write(text);
    this.#written = end;
    this.#marks.push({ code: this.#length, joined: end });
    return end;
  }

  /** Writes the joined text unchanged up to `end`. */
  #writeTo(end: number): void {
    this.#write(this.#joined.slice(this.#written, end));
    this.#written = end;
  }

  #write(text: string): void {
    this.#parts.push(text);
    this.#length += text.length;
    if (this.#sinceString.length < 3) this.#sinceString += text.trim();
    const newline = text.lastIndexOf('\n');
    if (newline >= 0) this.#line = { head: '', angle: false };
    const tail = text.slice(newline + 1);
    if (this.#line.head.length < 2)
      this.#line.head = (this.#line.head + tail.replace(this.#line.head === '' ? LEADING_SPACE : '', '')).slice(0, 2);
    if (/[<>]/.test(tail)) this.#line.angle = tail.lastIndexOf('<') > tail.lastIndexOf('>');
  }

  #doubt(reason: string, joined: number): void {
    if (this.#doubts.length < MAX_DOUBTS) this.#doubts.push({ line: this.#lineOf(this.#originalAt(joined)), reason });
  }

  #originalAt(joined: number): number {
    const splice = this.#splices[upperBound(this.#splices, (each) => each.joined, joined) - 1];
    return splice ? splice.original + joined - splice.joined : joined;
  }

  #joinedAt(original: number): number {
    const splice = this.#splices[upperBound(this.#splices, (each) => each.original, original) - 1];
    return splice ? splice.joined + original - splice.original : original;
  }

  #lineAt(index: number): number {
    const mark = this.#marks[Math.max(0, upperBound(this.#marks, ({ code }) => code, index) - 1)]!;
    return this.#lineOf(this.#originalAt(mark.joined + index - mark.code));
  }

  #lineOf(original: number): number {
    return this.#original.slice(0, original).split('\n').length;
  }
}

/** The position `past` characters after the first `wanted` at or after `from`, or the text's end if there is none. */
function endOf(text: string, wanted: string, from: number, past = 0): number {
  const found = text.indexOf(wanted, from);
  return found < 0 ? text.length : found + past;
}

/** The number of sorted values that are at most `limit`. */
function upperBound<T>(sorted: readonly T[], valueOf: (each: T) => number, limit: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (valueOf(sorted[middle]!) <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

const SIMPLE_ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  f: '\f',
  v: '\v',
  a: '\x07',
  b: '\b',
  e: '\x1b',
  E: '\x1b',
};

/** The text of a string literal with its escapes resolved ([lex.ccon]). */
export function unescaped(text: string): string {
  return text.replace(
    /\\(?:x([\da-fA-F]+)|([0-7]{1,3})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([^]))/g,
    (_, ...[hex, octal, short, long, other]: (string | undefined)[]) => {
      if (other !== undefined) return entryOf(SIMPLE_ESCAPES, other) ?? other;
      const value = octal === undefined ? parseInt((hex ?? short ?? long)!, 16) : parseInt(octal, 8);
      return value <= 0x10ffff ? String.fromCodePoint(value) : '\ufffd';
    },
  );
}

/** A word, a number or any other single character of a source, with its position. */
export interface Token {
  text: string;
  index: number;
}

const TOKEN = /\s*(\w+|\S)/y;

/**
 * At most `most` tokens from `from` on. The limit also bounds how much text is read more than once, so that a scan
 * stays linear.
 */
export function tokensFrom(text: string, from: number, most: number): Token[] {
  const tokens: Token[] = [];
  TOKEN.lastIndex = from;
  while (tokens.length < most) {
    const match = TOKEN.exec(text);
    if (!match) break;
    tokens.push({ text: match[1]!, index: TOKEN.lastIndex - match[1]!.length });
  }
  return tokens;
}

/** The positions at which a text contains a word as a whole word. */
export function* wordIndices(text: string, word: string): Generator<number> {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
    if (!isWordCharacter(text[at - 1]) && !isWordCharacter(text[at + word.length])) yield at;
  }
}

export const isWordCharacter = (character: string | undefined): boolean =>
  character !== undefined && /\w/.test(character);
