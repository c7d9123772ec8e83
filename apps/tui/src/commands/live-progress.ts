import type { JobEvent } from '@flashcore/shared/contract';
import { cellWidth, cutCells, sanitize, wrapWords } from '../present/cells/cell-text.ts';
import { OWN_SOURCE, logLinesOf, type LogLine, type LogTone } from '../present/sections/event-lines.ts';
import { formatSeconds } from '../present/numbers.ts';
import { styled, type ReportFormat } from '../present/plain/report-format.ts';
import type { Role } from '../present/roles.ts';
import type { JobView } from '../state/job-view.ts';
import { statusText } from './job-status.ts';

/** The output for progress: stderr, or a list of lines in a test. */
interface ProgressStream {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

const FRAME_MS = 100;
const HANG = '  ';
// A log does not need a line for every seed. One line every few seconds shows that the job is alive.
const SPARSE_STATUS_MS = 5_000;
const ROLES: Record<LogTone, Role> = {
  plain: 'dim',
  routine: 'dim',
  good: 'dim',
  phase: 'title',
  warn: 'warn',
  bad: 'bad',
};
const SPINNERS = { unicode: '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏', ascii: '|/-\\' };

/**
 * Shows a job's progress on stderr. In a terminal, a status line is redrawn below the permanent lines; elsewhere there
 * are only permanent lines. `stop()` leaves the cursor at the start of an empty line.
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

  /** `job` returns the store's current view of the job. */
  constructor(stream: ProgressStream, format: ReportFormat, job: () => JobView | undefined) {
    this.#stream = stream;
    this.#format = format;
    this.#job = job;
    if (stream.isTTY && !format.appends) this.#timer = setInterval(() => this.#draw(), FRAME_MS).unref();
  }

  /** Shows an event that the view has already applied. */
  show(event: JobEvent): void {
    const lines = linesToKeep(event);
    // A pipe gets whole lines, because people search them.
    const width = this.#stream.isTTY ? this.#format.width : Infinity;
    for (const { text, tone } of lines)
      for (const part of wrapped(text, width)) this.line(styled(part, ROLES[tone], this.#format));
    if (lines.length === 0 && event.payload === this.#job()?.activity) this.#tellSparsely();
  }

  /** Prints a permanent line. */
  line(text: string): void {
    this.#erase();
    this.#stream.write(`${text}\n`);
    if (this.#timer) this.#draw();
  }

  /** Erases the status line, and with it the ^C that the terminal wrote behind it. False if there was no such line. */
  clear(): boolean {
    const wasDrawn = this.#drawn;
    this.#erase();
    return wasDrawn;
  }

  // Writes the status to a log from time to time. In a terminal a timer draws the status line instead.
  #tellSparsely(): void {
    if (this.#timer !== undefined || Date.now() - this.#lastSparseAt < SPARSE_STATUS_MS) return;
    this.#lastSparseAt = Date.now();
    const status = this.#status();
    if (status) this.#stream.write(`  ${status}\n`);
  }

  #status(): string {
    const job = this.#job();
    return job === undefined ? '' : sanitize(statusText(job));
  }

  /** The time since the start of what the status line names, which may be long before this command began to watch. */
  #elapsedMs(): number {
    const { phases = [], startTime, createTime = this.#startedAt } = this.#job() ?? {};
    return Math.max(0, Date.now() - (phases.at(-1)?.startTime ?? startTime ?? createTime));
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#erase();
  }

  #draw(): void {
    const status = this.#status();
    if (!status) return;
    const spinner = this.#format.ascii ? SPINNERS.ascii : SPINNERS.unicode;
    const text = `${spinner[this.#frame++ % spinner.length]} ${status}  ${formatSeconds(this.#elapsedMs() / 1000)}`;
    this.#stream.write(`\r${styled(cutCells(text, this.#format.width - 1), 'accent', this.#format)}\u001b[K`);
    this.#drawn = true;
  }

  #erase(): void {
    if (this.#drawn) this.#stream.write('\r\u001b[2K');
    this.#drawn = false;
  }
}

/** Log lines to print for an event. Gates that did not fail are left out. */
/** The text in lines that break between words; the later ones are indented further. */
function wrapped(text: string, width: number): string[] {
  if (cellWidth(text) <= width) return [text];
  const indent = /^ */.exec(text)![0];
  return wrapWords(text, width - indent.length - HANG.length).map(
    (line, index) => `${indent}${index === 0 ? '' : HANG}${line}`,
  );
}

function linesToKeep({ payload, ...event }: JobEvent): Pick<LogLine, 'text' | 'tone'>[] {
  if (payload.case === 'created') return [{ text: payload.value.job?.name ?? '', tone: 'plain' }];
  if (payload.case === 'started' || payload.case === 'finished') return [];
  const lines = logLinesOf({ ...event, payload });
  return lines
    .filter(({ tone }) => payload.case !== 'gateResult' || tone === 'bad')
    .map(({ text, tone, source }) => ({
      text: `${tone === 'phase' ? '' : '  '}${payload.case === 'warning' ? 'warning: ' : ''}${source === OWN_SOURCE ? '' : `${source}: `}${text}`,
      tone,
    }));
}
