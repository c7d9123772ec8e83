/** Finds the log lines that match a query, one slice at a time so that a long log never delays a frame. */
import safeRegex from 'safe-regex2';
import type { AppState } from './app-state.ts';
import type { LogBuffer } from './log-buffer.ts';

const SLICE_MS = 4;
// Lines searched between two checks of the clock.
const LINES_PER_LOOK = 512;
const META = /[\\^$.|?*+()[\]{}]/;

export class LogSearch {
  readonly query: string;
  readonly #needle: string;
  readonly #matches: number[] = [];
  readonly #caseSensitive: boolean;
  readonly #pattern: RegExp | undefined;
  #next = 0;

  /** A query is matched as plain text, and also as a regular expression if it is a valid one. */
  constructor(query: string) {
    this.query = query;
    // As in less and vim, an upper-case letter makes the query case-sensitive.
    this.#caseSensitive = query !== query.toLowerCase();
    this.#needle = this.#caseSensitive ? query : query.toLowerCase();
    this.#pattern = patternOf(query, this.#caseSensitive);
  }

  /** Numbers of the matching lines found so far, ascending. */
  get matches(): readonly number[] {
    return this.#matches;
  }

  /** Searches new lines for at most a few milliseconds. Returns false if lines remain. */
  advance(buffer: LogBuffer, now: () => number = () => performance.now()): boolean {
    const deadline = now() + SLICE_MS;
    this.#next = Math.max(this.#next, buffer.start);
    while (this.#next < buffer.end) {
      const line = buffer.at(this.#next);
      if (line !== undefined && this.matchesText(line.text)) this.#matches.push(this.#next);
      this.#next += 1;
      if (this.#next % LINES_PER_LOOK === 0 && now() > deadline) return false;
    }
    return true;
  }

  matchesText(text: string): boolean {
    return (
      (this.#caseSensitive ? text : text.toLowerCase()).includes(this.#needle) ||
      (this.#pattern !== undefined && text.search(this.#pattern) >= 0)
    );
  }

  /** The first match after `line`, or before it if `direction` is -1; wraps around at the end. */
  neighbor(line: number, direction: 1 | -1): number | undefined {
    if (direction === 1) return this.#matches.find((match) => match > line) ?? this.#matches[0];
    return this.#matches.findLast((match) => match < line) ?? this.#matches.at(-1);
  }

  /** The number, counted from 1, of the last match at or before `line`; 0 if all matches come after it. */
  place(line: number): number {
    return this.#matches.findLastIndex((match) => match <= line) + 1;
  }

  /** Ranges of the matches in `text`, as [start, end). */
  ranges(text: string): [number, number][] {
    const found: [number, number][] = [];
    const haystack = this.#caseSensitive ? text : text.toLowerCase();
    if (this.#needle === '') return found;
    for (
      let start = haystack.indexOf(this.#needle);
      start >= 0;
      start = haystack.indexOf(this.#needle, start + this.#needle.length)
    ) {
      found.push([start, start + this.#needle.length]);
    }
    return found.length > 0 || this.#pattern === undefined ? found : patternRanges(text, this.#pattern);
  }
}

/** Undefined for plain words, invalid or unfinished expressions, and expressions that could take exponential time. */
function patternOf(query: string, caseSensitive: boolean): RegExp | undefined {
  if (!META.test(query)) return undefined;
  try {
    const pattern = new RegExp(query, caseSensitive ? 'gu' : 'giu');
    return safeRegex(pattern) ? pattern : undefined;
  } catch {
    // A half-typed expression, or text such as "int[", is searched for as plain text.
    return undefined;
  }
}

const patternRanges = (text: string, pattern: RegExp): [number, number][] =>
  Array.from(text.matchAll(pattern), ({ index, 0: match }): [number, number] => [index, index + match.length]).filter(
    ([start, end]) => end > start,
  );

/** The data of one frame. It is a new object if anything changed. */
export interface Snapshot {
  readonly state: AppState;
  /** Log of the attached job. */
  readonly log: LogBuffer;
  readonly search: LogSearch | undefined;
}
