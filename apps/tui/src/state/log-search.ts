/** Numbers of the log lines that match a query, found a slice at a time so that a long log never holds up a frame. */
import safeRegex from 'safe-regex2';
import type { LogBuffer } from './log-buffer.ts';

const SLICE_MS = 4;
// Lines between two looks at the clock.
const LINES_PER_LOOK = 512;
const META = /[\\^$.|?*+()[\]{}]/;

export class LogSearch {
  readonly query: string;
  readonly #needle: string;
  readonly #matches: number[] = [];
  readonly #caseSensitive: boolean;
  readonly #pattern: RegExp | undefined;
  #next = 0;

  /** A query finds itself, and what it matches where it is a regular expression. */
  constructor(query: string) {
    this.query = query;
    // As in less and vim: an upper-case letter in the query makes case count.
    this.#caseSensitive = query !== query.toLowerCase();
    this.#needle = this.#caseSensitive ? query : query.toLowerCase();
    this.#pattern = patternOf(query, this.#caseSensitive);
  }

  /** Numbers of the matching lines found so far, ascending. */
  get matches(): readonly number[] {
    return this.#matches;
  }

  /** Looks at lines not seen yet, for at most a few milliseconds. False: there are more to look at. */
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

  /** The first match after `line`, or before it when `direction` is -1; past the end it goes on from the other side. */
  neighbour(line: number, direction: 1 | -1): number | undefined {
    if (direction === 1) return this.#matches.find((match) => match > line) ?? this.#matches[0];
    return this.#matches.findLast((match) => match < line) ?? this.#matches.at(-1);
  }

  /** Which match, from 1, is the last one up to `line`; 0: all come after it. */
  place(line: number): number {
    return this.#matches.findLastIndex((match) => match <= line) + 1;
  }

  /** Ranges of what matches in `text`, as [start, end). */
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

/** Undefined for plain words, for what is no expression (yet), and for one that could take exponential time. */
function patternOf(query: string, caseSensitive: boolean): RegExp | undefined {
  if (!META.test(query)) return undefined;
  try {
    const pattern = new RegExp(query, caseSensitive ? 'gu' : 'giu');
    return safeRegex(pattern) ? pattern : undefined;
  } catch {
    // Half typed, or text such as "int[": it is looked for as it stands.
    return undefined;
  }
}

const patternRanges = (text: string, pattern: RegExp): [number, number][] =>
  Array.from(text.matchAll(pattern), ({ index, 0: match }): [number, number] => [index, index + match.length]).filter(
    ([start, end]) => end > start,
  );
