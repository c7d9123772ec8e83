/** The last lines of a job's log. A line keeps its number even after older lines were dropped. */
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { setFlagsFromString } from 'node:v8';
import type { LogLine, LogTone } from '../present/sections/event-lines.ts';

const DEFAULT_CAPACITY = 1_000_000;
const CHUNK_LINES = 1_024;
const BEYOND_LATIN1 = /[^\u0000-\u00ff]/;
const TONES: readonly LogTone[] = ['plain', 'routine', 'phase', 'good', 'bad', 'warn'];

// Number of chunks that stay inflated, because every frame lays out the end of the log and the lines that the user
// reads.
const OPENED_CHUNKS = 4;
const BYTES_A_LINE = { times: 8, ends: 4, kinds: 2 };
const TEXT_AT = CHUNK_LINES * (BYTES_A_LINE.times + BYTES_A_LINE.ends + BYTES_A_LINE.kinds);

/**
 * CHUNK_LINES deflated lines. Compiler output shrinks to a tenth or less, so a million lines take a few megabytes, none
 * of them in V8's heap.
 */
interface SealedChunk {
  readonly deflated: Uint8Array;
  /** UTF-16, or Latin-1 if the text fits. */
  readonly encoding: 'latin1' | 'utf16le';
}

/** A chunk inflated for reading: four arrays in one block of memory; inflating takes 0.2 ms. */
interface OpenedChunk {
  readonly text: Buffer;
  readonly encoding: SealedChunk['encoding'];
  /** End of each line in the text, in characters. */
  readonly ends: Uint32Array;
  readonly times: Float64Array;
  /** Index of the source times the number of tones, plus index of the tone. */
  readonly kinds: Uint16Array;
}

export class LogBuffer {
  readonly #capacity: number;
  /** Chunks by number. Chunks before the oldest kept line were removed. */
  readonly #chunks = new Map<number, SealedChunk>();
  /** Chunks read recently; the least recently read comes first. */
  readonly #opened = new Map<number, OpenedChunk>();
  readonly #sources: string[] = [];
  /** Lines after the last whole chunk. */
  #open: LogLine[] = [];
  #end = 0;

  constructor(capacity: number = DEFAULT_CAPACITY) {
    this.#capacity = capacity;
  }

  /** Number of the line after the last one. */
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

  /** The line with that number; undefined if it was dropped or does not exist yet. */
  at(number: number): LogLine | undefined {
    if (number < this.start || number >= this.#end) return undefined;
    const place = number % CHUNK_LINES;
    const chunk = this.#chunkOf(Math.floor(number / CHUNK_LINES));
    return chunk === undefined ? this.#open[place] : this.#lineOf(chunk, place);
  }

  /** Undefined for lines that are not in a whole chunk yet. */
  #chunkOf(number: number): OpenedChunk | undefined {
    const sealed = this.#chunks.get(number);
    if (sealed === undefined) return undefined;
    const chunk = this.#opened.get(number) ?? openChunk(sealed);
    this.#opened.delete(number);
    this.#opened.set(number, chunk);
    for (const oldest of this.#opened.keys()) {
      if (this.#opened.size <= OPENED_CHUNKS) break;
      this.#opened.delete(oldest);
    }
    return chunk;
  }

  #lineOf({ text, encoding, ends, times, kinds }: OpenedChunk, place: number): LogLine {
    const kind = kinds[place] ?? 0;
    const bytes = encoding === 'latin1' ? 1 : 2;
    return {
      time: times[place] ?? 0,
      source: this.#sources[Math.floor(kind / TONES.length)] ?? '',
      text: text.toString(encoding, (place === 0 ? 0 : (ends[place - 1] ?? 0)) * bytes, (ends[place] ?? 0) * bytes),
      tone: TONES[kind % TONES.length] ?? 'plain',
    };
  }

  #seal(): void {
    const lines = this.#open;
    const text = lines.map((line) => line.text).join('');
    const encoding = BEYOND_LATIN1.test(text) ? 'utf16le' : 'latin1';
    const bytes = Buffer.concat([Buffer.alloc(TEXT_AT), Buffer.from(text, encoding)]);
    const { times, ends, kinds } = arraysIn(bytes);
    let end = 0;
    lines.forEach((line, place) => {
      times[place] = line.time;
      ends[place] = end += line.text.length;
      kinds[place] = this.#sourceIndex(line.source) * TONES.length + TONES.indexOf(line.tone);
    });
    // Level 1 takes 0.8 ms per chunk, and its output is at most a third larger than the best level's. The copy saves
    // memory: zlib returns a slice of a larger block, which would be kept too.
    this.#chunks.set(this.#end / CHUNK_LINES - 1, {
      deflated: new Uint8Array(deflateRawSync(bytes, { level: 1 })),
      encoding,
    });
    this.#open = [];
    const dropped = Math.floor(this.start / CHUNK_LINES) - 1;
    this.#chunks.delete(dropped);
    this.#opened.delete(dropped);
  }

  #sourceIndex(source: string): number {
    const known = this.#sources.indexOf(source);
    return known >= 0 ? known : this.#sources.push(source) - 1;
  }
}

const openChunk = ({ deflated, encoding }: SealedChunk): OpenedChunk => {
  const bytes = inflateRawSync(deflated);
  return { ...arraysIn(bytes), text: bytes.subarray(TEXT_AT), encoding };
};

/** The arrays before a chunk's text. The widest element type comes first, so all are aligned. */
function arraysIn(bytes: Buffer): Pick<OpenedChunk, 'times' | 'ends' | 'kinds'> {
  // Node does not take a buffer of this size from its pool, so the block is aligned at its start.
  const { buffer, byteOffset } = bytes;
  const endsAt = byteOffset + CHUNK_LINES * BYTES_A_LINE.times;
  return {
    times: new Float64Array(buffer, byteOffset, CHUNK_LINES),
    ends: new Uint32Array(buffer, endsAt, CHUNK_LINES),
    kinds: new Uint16Array(buffer, endsAt + CHUNK_LINES * BYTES_A_LINE.ends, CHUNK_LINES),
  };
}

/**
 * Keeps V8 from growing its young generation. V8 would double it to up to 3 x 32 MiB while much is allocated, and never
 * shrink it.
 *
 * Call this once the program has loaded, because the size needed for loading is enough for data from a runner. Saves 60
 * MiB after a million log lines, at the same CPU time.
 */
export const keepYoungGeneration = (): void => setFlagsFromString('--semi-space-growth-factor=1');
