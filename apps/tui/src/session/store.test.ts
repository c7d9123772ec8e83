import { create } from '@bufbuild/protobuf';
import { JobSchema, JobState, Outcome, type Job } from '@flashcore/shared/contract';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { initialState } from '../state/app-state.ts';
import { Store } from './store.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

const SECONDS = 60;
const jobIn = (state: JobState): Job => create(JobSchema, { name: 'jobs/1', state, outcome: Outcome.PASSED });

/** Frames in a minute in which the clock ticks and the jobs are read, as an idle session does. */
function framesOf(jobs: readonly Job[]): number {
  const runner = { label: 'x', embedded: true };
  const store = new Store({ state: initialState({ runner, columns: 120, rows: 40, now: 0 }) });
  store.dispatch({ type: 'connection', connection: 'connected' });
  store.dispatch({ type: 'jobs', jobs });
  vi.advanceTimersByTime(200);
  let frames = 0;
  store.subscribe(() => (frames += 1));
  for (let second = 1; second <= SECONDS; second++) {
    store.dispatch({ type: 'tick', now: second * 1_000 });
    store.dispatch({ type: 'jobs', jobs: jobs.map((each) => create(JobSchema, each)) });
    vi.advanceTimersByTime(1_000);
    expect(store.state.now).toBe(second * 1_000);
  }
  store.close();
  return frames;
}

test('the screen is computed every ten seconds while no job is open, and every second otherwise', () => {
  const frames = [[], [jobIn(JobState.ENDED)], [jobIn(JobState.RUNNING)]].map(framesOf);
  expect(frames).toEqual([6, 6, SECONDS]);
});
