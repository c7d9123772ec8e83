import type { JobEvent } from '@flashcore/shared/contract';
import type { ReportFormat } from './format.ts';
import { seconds } from './numbers.ts';
import type { JobView } from '../state/job-view.ts';
import { progressLine, statusText } from './progress.ts';
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
 * Shows a job's progress on stderr: in a terminal one status line that redraws itself below the lines to keep,
 * elsewhere
 * only lines. `stop()` leaves the cursor at the start of an empty line.
 */
export class LiveProgress {
  readonly #stream: ProgressStream;
  readonly #format: ReportFormat;
  readonly #job: () => JobView | undefined;
  readonly #startedAt = Date.now();
  #timer: NodeJS.Timeout | undefined;
  #drawn = false;
  #frame = 0;
  #lastSparseAt = Date.now();

  /** `job`: the store's view of it now. */
  constructor(stream: ProgressStream, format: ReportFormat, job: () => JobView | undefined) {
    this.#stream = stream;
    this.#format = format;
    this.#job = job;
    if (stream.isTTY) this.#timer = setInterval(() => this.#draw(), FRAME_MS).unref();
  }

  /** Shows an event that the view has taken in. */
  show(event: JobEvent): void {
    const { line, style } = progressLine(event) ?? {};
    if (line) this.line(style ? this.#format.style(style, printable(line)) : printable(line));
    else if (line === undefined && event.payload === this.#job()?.activity) this.#tellSparsely();
  }

  /** A line that stays. */
  line(text: string): void {
    this.#erase();
    this.#stream.write(`${text}\n`);
    if (this.#timer) this.#draw();
  }

  // A terminal's status line is drawn by the timer. In a log it is written now and then.
  #tellSparsely(): void {
    if (this.#stream.isTTY || Date.now() - this.#lastSparseAt < SPARSE_STATUS_MS) return;
    this.#lastSparseAt = Date.now();
    const status = this.#status();
    if (status) this.#stream.write(`  ${status}\n`);
  }

  #status(): string {
    const job = this.#job();
    return job === undefined ? '' : printable(statusText(job));
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#erase();
  }

  #draw(): void {
    const status = this.#status();
    if (!status) return;
    const spinner = this.#format.unicode ? SPINNERS.unicode : SPINNERS.ascii;
    const text = `${spinner[this.#frame++ % spinner.length]} ${status}  ${seconds((Date.now() - this.#startedAt) / 1000)}`;
    this.#stream.write(`\r${this.#format.style('cyan', truncate(text, this.#format.width - 1, this.#format))}\u001b[K`);
    this.#drawn = true;
  }

  #erase(): void {
    if (this.#drawn) this.#stream.write('\r\u001b[2K');
    this.#drawn = false;
  }
}
