/** Holds the state outside of React. Actions change it at once, but subscribers are notified at most once per frame. */
import { channel } from 'node:diagnostics_channel';
import type { Action } from '../state/actions.ts';
import type { AppState } from '../state/app-state.ts';
import { reduce } from '../state/app-reducer.ts';
import { LogBuffer } from '../state/log-buffer.ts';
import { OWN_SOURCE, logLinesOf, type LogLine } from '../present/sections/event-lines.ts';
import type { JobView } from '../state/job-view.ts';
import { LogSearch, type Snapshot } from '../state/log-search.ts';
import { JobState, Outcome, type JobEvent } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';

/** Data from a runner is drawn 20 times a second, because nobody can read a log faster. */
export const FRAME_MS = 50;
// If drawing takes long (on a large screen or a busy machine), half as many frames are still enough for reading.
const SLOW_FRAME_MS = 100;
const SLOW_FROM_MS = 12;
/**
 * If the channel has a subscriber, publishes { milliseconds } for every frame: the time for computing the text, the
 * layout and writing.
 */
export const FRAMES = channel('fa-tui:frame');
// The effect of a key is shown sooner than data from a runner.
const KEY_FRAME_MS = 8;
const FROM_RUNNER: ReadonlySet<Action['type']> = new Set<Action['type']>([
  'job-event',
  'connection',
  'host',
  'jobs',
  'experiments',
  'kernels',
  'tick',
]);

/** Ages such as "12 s ago" move on this often while nothing runs. */
const STILL_MS = 10_000;

/**
 * True if the tick of the clock from `before` to `after` changes nothing that anyone waits for. Computing a screen that
 * looks the same would be most of what an idle fa-tui does.
 */
function isStill(before: AppState, after: AppState): boolean {
  const { jobs, ui, connection, notice, restart } = after;
  const isOpen = jobs.some(({ state }) => state !== JobState.ENDED);
  const shown = entryOf(after.views, after.attached ?? '');
  const isShownOpen = shown !== undefined && shown.state !== JobState.ENDED;
  return (
    !isOpen &&
    !isShownOpen &&
    connection === 'connected' &&
    ui.view !== 'host' &&
    notice === before.notice &&
    restart === before.restart &&
    Math.floor(before.now / STILL_MS) === Math.floor(after.now / STILL_MS)
  );
}

interface StoreOptions {
  readonly state: AppState;
  /**
   * False until the terminal has accepted the last frame. A terminal that accepts nothing must not stall the program.
   */
  readonly canDraw?: () => boolean;
  readonly logCapacity?: number;
}

const isFailedCompile = ({ payload }: JobEvent): boolean =>
  payload.case === 'finished' && payload.value.outcome === Outcome.COMPILE_FAILED;

const isToolError = (line: LogLine | undefined): boolean => line?.tone === 'bad' && line.source !== OWN_SOURCE;

/** Leaves the finding out of the job's last line: it is a few lines above, and would fill a small screen again. */
function endWithoutFinding(
  lines: readonly LogLine[],
  { payload }: JobEvent,
  { variants }: JobView,
): readonly LogLine[] {
  if (payload.case !== 'finished') return lines;
  const messages = variants.flatMap(({ findings }) => findings.map(({ message }) => message));
  // Without their number: each variant repeats its findings, and the pane counts those of the shown one.
  const above = messages.length > 1 ? 'see the findings above' : 'see the finding above';
  return lines.map((line) => {
    const told = messages.find((message) => message !== '' && line.text.endsWith(`: ${message}`));
    return told === undefined ? line : { ...line, text: `${line.text.slice(0, -`: ${told}`.length)}, ${above}` };
  });
}

export class Store {
  readonly #listeners = new Set<() => void>();
  readonly #logs = new Map<string, LogBuffer>();
  readonly #canDraw: () => boolean;
  readonly #logCapacity: number | undefined;
  readonly #noLog = new LogBuffer(1);
  #state: AppState;
  #search: LogSearch | undefined;
  #snapshot: Snapshot;
  #timer: NodeJS.Timeout | undefined;
  #due = 0;
  #lastFrame = 0;
  /** Running mean of the time per frame, in milliseconds. */
  #cost = 0;

  constructor({ state, canDraw = () => true, logCapacity }: StoreOptions) {
    this.#state = state;
    this.#canDraw = canDraw;
    this.#logCapacity = logCapacity;
    this.#snapshot = { state, log: this.#noLog, search: undefined };
  }

  /** The current state, which may be newer than the screen. */
  get state(): AppState {
    return this.#state;
  }

  /** Log of the job that is shown. */
  get log(): LogBuffer {
    return (this.#state.attached === undefined ? undefined : this.#logs.get(this.#state.attached)) ?? this.#noLog;
  }

  get search(): LogSearch | undefined {
    return this.#search;
  }

  readonly dispatch = (action: Action): void => {
    const before = this.#state;
    this.#state = reduce(before, action);
    if (action.type === 'job-event') this.#keepLines(before, action);
    if (action.type === 'job-event' && isFailedCompile(action.event)) this.#showFirstError(action.event.job);
    if (this.#state.ui.log.query !== before.ui.log.query || this.#state.attached !== before.attached)
      this.#startSearch();
    if (action.type === 'tick' && isStill(before, this.#state)) return;
    if (this.#state !== before) this.#schedule(FROM_RUNNER.has(action.type) ? this.#frameMs() : KEY_FRAME_MS);
  };

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly getSnapshot = (): Snapshot => this.#snapshot;

  /** True if a change is waiting for its frame. */
  get pending(): boolean {
    return this.#timer !== undefined;
  }

  /** Prevents any further frame. */
  close(): void {
    clearTimeout(this.#timer);
    this.#listeners.clear();
  }

  /** Keeps the log lines of an event only if the reducer applied the event. Repeated and early events add no lines. */
  #keepLines(before: AppState, { event }: { event: Parameters<typeof logLinesOf>[0] }): void {
    const after = entryOf(this.#state.views, event.job);
    if (after === undefined || after.lastSequence === (entryOf(before.views, event.job)?.lastSequence ?? 0)) return;
    const buffer = this.#logs.get(event.job) ?? new LogBuffer(this.#logCapacity);
    this.#logs.set(event.job, buffer);
    for (const line of endWithoutFinding(logLinesOf(event), event, after)) buffer.append(line);
  }

  /**
   * If the kernel does not compile and the log is following, moves the log to the first error, because later messages
   * only repeat it.
   */
  #showFirstError(job: string): void {
    const { attached, ui } = this.#state;
    if (job !== attached || !ui.log.follow) return;
    const { log } = this;
    for (let top = log.start; top < log.end; top++)
      if (isToolError(log.at(top))) {
        this.#state = reduce(this.#state, { type: 'log-position', follow: false, top });
        return;
      }
  }

  #startSearch(): void {
    const { query } = this.#state.ui.log;
    this.#search = query === '' ? undefined : new LogSearch(query);
    this.#search?.advance(this.log);
  }

  #frameMs(): number {
    return this.#cost > SLOW_FROM_MS ? SLOW_FRAME_MS : FRAME_MS;
  }

  /**
   * Schedules a frame `interval` after the last one, or at once if that time has passed. If a frame is scheduled
   * earlier, it stays.
   */
  #schedule(interval = this.#frameMs()): void {
    const due = this.#lastFrame + interval;
    if (this.#timer !== undefined && this.#due <= due) return;
    clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => this.#frame(), Math.max(0, due - performance.now()));
  }

  #frame(): void {
    this.#timer = undefined;
    this.#lastFrame = performance.now();
    if (!this.#canDraw()) return this.#schedule();
    const complete = this.#search?.advance(this.log) ?? true;
    this.#snapshot = { state: this.#state, log: this.log, search: this.#search };
    for (const listener of this.#listeners) listener();
    // The listeners queue a microtask in which React draws; this microtask runs after it.
    queueMicrotask(() => this.#frameDrawn(performance.now() - this.#lastFrame));
    if (!complete) this.#schedule();
  }

  #frameDrawn(milliseconds: number): void {
    this.#cost += (milliseconds - this.#cost) / 8;
    if (FRAMES.hasSubscribers) FRAMES.publish({ milliseconds });
  }
}
