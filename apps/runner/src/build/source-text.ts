/**
 * A source as the preprocessor's directives are found in it: after translation phases 1 to 3 of C++17 ([lex.phases]).
 */
import { entryOf } from '@flashcore/shared/text';
export interface SourceText {
  /**
   * Continued lines joined and each comment one space; a raw string has spaces for its newlines, so that a line is a
   * line of the preprocessor.
   */
  code: string;
  /**
   * String literals as the compiler joins them (phases 5 and 6): adjacent ones as one, escapes resolved. `index` is
   * where in `code` the first begins.
   */
  strings: readonly { index: number; text: string }[];
  /** Places where compilers may read another text than this one, so that a directive could hide. */
  doubts: readonly { line: number; reason: string }[];
  /** Line of the file, from 1, of an index of `code`. */
  lineAt: (index: number) => number;
}

/**
 * Reads a source in time and memory in proportion to its length; never fails: what can't be read in one way only is a
 * doubt.
 */
export function readSourceText(text: string): SourceText {
  return new Reader(text).read();
}

// GCC and clang also take white space between backslash and newline for a continued line; neither reads trigraphs in
// C++17.
const SPLICE = /\\[ \t\f\v\0]*\r?\n/g;
// A comment's beginning, a number (whose ' and " are its own), a word with the quote that it may be the prefix of, a
// quote.
const INTERESTING = /\/\/|\/\*|\.?\d(?:[eEpP][+-]|'?[\w$]|\.)*|[\w$\u0080-\uffff]+"?|["']/g;
const STRING = /"(?:[^"\\\n]|\\[^\n])*"?|'(?:[^'\\\n]|\\[^\n])*'?/y;
const RAW_PREFIX = /^(?:u8|[uUL])?R$/;
const RAW_HEAD = /"([^\s()\\]{0,16})\(/y;
const NOT_ASCII = /[^\0-\x7f]/;
const LEADING_SPACE = /^[\s\0]+/;
/** More of them say nothing new, and each costs a count of lines. */
const MAX_DOUBTS = 8;

class Reader {
  readonly #original: string;
  readonly #joined: string;
  /** Ends of splices: where in the joined text, and where in the original. */
  readonly #splices: { joined: number; original: number }[] = [];
  readonly #parts: string[] = [];
  /** Of the joined text. */
  #written = 0;
  #length = 0;
  /** Where `code` and the joined text part ways. */
  readonly #marks: { code: number; joined: number }[] = [{ code: 0, joined: 0 }];
  readonly #strings: { index: number; text: string }[] = [];
  /** What was written since the last string literal, but white space; its first characters are enough. */
  #sinceString = '-';
  readonly #doubts: { line: number; reason: string }[] = [];
  /** Of the line of `code` that is being written: its first two characters, and whether a "<" is open in it. */
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

  /** Sees to what is not code as it stands, and gives where the next token begins. */
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
   * In a raw string a backslash before a newline is itself again (phase 3), so its end is looked for in the original.
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

  /** Adds a string literal to the one before it where nothing but white space and a prefix is between them. */
  #keep(text: string): void {
    const last = this.#strings.at(-1);
    if (last && /^(?:u8|[uUL])?$/.test(this.#sinceString)) last.text += text;
    else this.#strings.push({ index: this.#length, text });
  }

  /** Writes other text for what stands from `at` to `end`. */
  #skip(at: number, end: number, text: string, what: string): number {
    this.#writeTo(at);
    // In <…> after #include or __has_include neither begins, and GCC ends some directives within a raw string. What
    // ends on its line is harmless in every reading.
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

  /** Writes the joined text as it stands, from where that ended before. */
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

/** Where `wanted` begins at or after `from`, plus `past`; the text's end where it does not. */
function endOf(text: string, wanted: string, from: number, past = 0): number {
  const found = text.indexOf(wanted, from);
  return found < 0 ? text.length : found + past;
}

/** How many of the sorted values are at most `limit`. */
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

/** A string literal's text with its escapes resolved ([lex.ccon]). */
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
