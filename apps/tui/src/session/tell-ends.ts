/**
 * Announces the end of a long job by a bell or a terminal notification (OSC 9), because the user may be looking
 * elsewhere.
 */
import { JobState } from '@flashcore/shared/contract';
import { formatSeconds } from '../present/numbers.ts';
import { jobMark, jobTitle } from '../present/words.ts';
import type { AppState, EndNotice } from '../state/app-state.ts';
import { isBeingRead, type JobView } from '../state/job-view.ts';
import { elapsedMs } from '../state/selectors.ts';
import { plainLine } from '@flashcore/shared/text';

/** During a shorter job, the user is still looking at the screen. */
const LONG_MS = 10_000;

interface Watched {
  readonly state: AppState;
  readonly subscribe: (listener: () => void) => unknown;
}

/** Writes an announcement for every long job that ends while it is watched, but not for a job that had ended before. */
export function tellEnds(store: Watched, write: (text: string) => void, notice: EndNotice): void {
  if (notice === 'none') return;
  const running = new Set<string>();
  store.subscribe(() => {
    const { views, now } = store.state;
    for (const [name, view] of Object.entries(views)) {
      if (view.state === JobState.RUNNING) running.add(name);
      if (view.state !== JobState.ENDED || isBeingRead(view) || !running.delete(name)) continue;
      if (elapsedMs(view, now) >= LONG_MS && isNews(view, now)) write(sequenceOf(view, notice));
    }
  });
}

/**
 * False for a job that ended long ago: when it is shown, its last event is read too. Allows for a difference between
 * the runner's clock and this one.
 */
const isNews = ({ endTime = 0 }: JobView, now: number): boolean => Math.abs(now - endTime) < 60_000;

function sequenceOf(view: JobView, notice: Exclude<EndNotice, 'none'>): string {
  if (notice === 'bell') return '\u0007';
  const { mark, word } = jobMark(view);
  const text = `fa-tui: ${mark} ${jobTitle(view)} ${word} after ${formatSeconds(elapsedMs(view, 0) / 1000)}`;
  return `\u001b]9;${plainLine(text)}\u001b\\`;
}
