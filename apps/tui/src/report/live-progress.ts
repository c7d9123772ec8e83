import type { JobEvent } from '@flashcore/shared';
import type { ReportFormat } from './format.ts';
import { seconds } from './numbers.ts';
import { progressNote } from './progress.ts';
import { printable, truncate } from './text.ts';

/** What progress is written to: stderr, or a list of lines in a test. */
export interface ProgressStream {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

const FRAME_MS = 100;
// In a log nobody wants a line for every seed; one every few seconds shows that it lives.
const SPARSE_STATUS_MS = 5_000;
const SPINNERS = { unicode: '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏', ascii: '|/-\\' };

/**
 * Shows a job's progress on stderr: in a terminal one status line that redraws itself below the lines to keep, elsewhere
 * only lines. `stop()` leaves the cursor at the start of an empty line.
 */
export class LiveProgress {
  readonly #stream: ProgressStream;
  readonly #format: ReportFormat;
  readonly #startedAt = Date.now();
  readonly #timer: NodeJS.Timeout | undefined;
  #status = '';
  #drawn = false;
  #frame = 0;
  #lastSparseAt = Date.now();

  constructor(stream: ProgressStream, format: ReportFormat) {
    this.#stream = stream;
    this.#format = format;
    if (stream.isTTY) this.#timer = setInterval(() => this.#draw(), FRAME_MS).unref();
  }

  show(event: JobEvent): void {
    const note = progressNote(event);
    if (note.line) this.line(note.style ? this.#format.style(note.style, printable(note.line)) : printable(note.line));
    if (note.status !== undefined) this.#become(note.status, note.line === undefined);
  }

  /** A line that stays. */
  line(text: string): void {
    this.#erase();
    this.#stream.write(`${text}\n`);
    if (this.#timer) this.#draw();
  }

  // What happens now; the next one replaces it. In a log it is written now and then, unless a line has just said the same.
  #become(status: string, isNews: boolean): void {
    this.#status = printable(status);
    if (this.#stream.isTTY || !isNews || Date.now() - this.#lastSparseAt < SPARSE_STATUS_MS) return;
    this.#lastSparseAt = Date.now();
    if (this.#status) this.#stream.write(`  ${this.#status}\n`);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#erase();
    this.#status = '';
  }

  #draw(): void {
    if (!this.#status) return;
    const spinner = this.#format.unicode ? SPINNERS.unicode : SPINNERS.ascii;
    const text = `${spinner[this.#frame++ % spinner.length]} ${this.#status}  ${seconds((Date.now() - this.#startedAt) / 1000)}`;
    this.#stream.write(`\r${this.#format.style('cyan', truncate(text, this.#format.width - 1, this.#format))}\u001b[K`);
    this.#drawn = true;
  }

  #erase(): void {
    if (this.#drawn) this.#stream.write('\r\u001b[2K');
    this.#drawn = false;
  }
}
