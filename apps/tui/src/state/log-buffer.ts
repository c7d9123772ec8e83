/** The last lines of a job's log. Lines have numbers that never change, also after older ones were dropped. */

/** What a line is about; views colour by it. */
export type LogTone = 'plain' | 'phase' | 'good' | 'bad' | 'warn';

export interface LogLine {
  /** Milliseconds since 1970. */
  readonly time: number;
  /** "nvcc", "g++", "kernel", "runner", or "fa" for lines that fa-tui made of other events. */
  readonly source: string;
  readonly text: string;
  readonly tone: LogTone;
}

const DEFAULT_CAPACITY = 1_000_000;
const CHUNK_LINES = 1_024;
const BEYOND_LATIN1 = /[^\u0000-\u00ff]/;
const TONES: readonly LogTone[] = ['plain', 'phase', 'good', 'bad', 'warn'];

/** CHUNK_LINES lines in four arrays outside of V8's heap: a line costs its characters and 14 bytes, and the garbage collector never walks it. */
interface Chunk {
  /** UTF-16, or Latin-1 where that is enough. */
  readonly text: Buffer;
  readonly encoding: 'latin1' | 'utf16le';
  /** Where each line ends in the text, in characters. */
  readonly ends: Uint32Array;
  readonly times: Float64Array;
  /** Index of the source times the number of tones, plus index of the tone. */
  readonly kinds: Uint16Array;
}

export class LogBuffer {
  readonly #capacity: number;
  /** By number of the chunk; those before the oldest line kept are gone. */
  readonly #chunks = new Map<number, Chunk>();
  readonly #sources: string[] = [];
  /** Lines after the last whole chunk. */
  #open: LogLine[] = [];
  #end = 0;

  constructor(capacity: number = DEFAULT_CAPACITY) {
    this.#capacity = capacity;
  }

  /** Number of the line after the last. */
  get end(): number {
    return this.#end;
  }

  /** Number of the oldest line kept. */
  get start(): number {
    return Math.max(0, this.#end - this.#capacity);
  }

  append(line: LogLine): void {
    this.#open.push(line);
    this.#end += 1;
    if (this.#open.length === CHUNK_LINES) this.#seal();
  }

  /** The line of that number; undefined when it was dropped or is not there yet. */
  at(number: number): LogLine | undefined {
    if (number < this.start || number >= this.#end) return undefined;
    const place = number % CHUNK_LINES;
    const chunk = this.#chunks.get(Math.floor(number / CHUNK_LINES));
    return chunk === undefined ? this.#open[place] : this.#lineOf(chunk, place);
  }

  #lineOf({ text, encoding, ends, times, kinds }: Chunk, place: number): LogLine {
    const kind = kinds[place] ?? 0;
    const bytes = encoding === 'latin1' ? 1 : 2;
    return {
      time: times[place] ?? 0,
      source: this.#sources[Math.floor(kind / TONES.length)] ?? '',
      text: text.toString(encoding, (place === 0 ? 0 : ends[place - 1] ?? 0) * bytes, (ends[place] ?? 0) * bytes),
      tone: TONES[kind % TONES.length] ?? 'plain',
    };
  }

  #seal(): void {
    const lines = this.#open;
    const text = lines.map((line) => line.text).join('');
    const encoding = BEYOND_LATIN1.test(text) ? 'utf16le' : 'latin1';
    let end = 0;
    this.#chunks.set(this.#end / CHUNK_LINES - 1, {
      text: Buffer.from(text, encoding),
      encoding,
      ends: Uint32Array.from(lines, (line) => (end += line.text.length)),
      times: Float64Array.from(lines, ({ time }) => time),
      kinds: Uint16Array.from(lines, ({ source, tone }) => this.#sourceIndex(source) * TONES.length + TONES.indexOf(tone)),
    });
    this.#open = [];
    this.#chunks.delete(Math.floor(this.start / CHUNK_LINES) - 1);
  }

  #sourceIndex(source: string): number {
    const known = this.#sources.indexOf(source);
    return known >= 0 ? known : this.#sources.push(source) - 1;
  }
}
