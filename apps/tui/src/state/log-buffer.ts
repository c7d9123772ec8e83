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

const DEFAULT_CAPACITY = 200_000;

export class LogBuffer {
  readonly #capacity: number;
  readonly #lines: LogLine[] = [];
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
    this.#lines[this.#end % this.#capacity] = line;
    this.#end += 1;
  }

  /** The line of that number; undefined when it was dropped or is not there yet. */
  at(number: number): LogLine | undefined {
    return number < this.start || number >= this.#end ? undefined : this.#lines[number % this.#capacity];
  }
}
