import { JobState, Outcome, type JobEvent } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { initialState, type EndNotice } from '../state/app-state.ts';
import { reduce } from '../state/app-reducer.ts';
import { SAMPLE_JOB, SAMPLE_START_MS, eventsOf } from '../testing/sample-job.ts';
import { tellEnds } from './tell-ends.ts';

/** A job with `steps` events, 200 ms apart. */
const job = (steps: number): JobEvent[] =>
  eventsOf([
    { case: 'created', value: { job: { name: SAMPLE_JOB, label: 'fa_v2_wmma', state: JobState.QUEUED } } },
    { case: 'started', value: {} },
    ...Array.from({ length: steps }, () => ({ case: 'logLine' as const, value: { source: 'nvcc', text: 'x' } })),
    { case: 'finished', value: { outcome: Outcome.PASSED } },
  ]);

function told(events: readonly JobEvent[], notice: EndNotice, now: number): string[] {
  let state = { ...initialState({ runner: { label: 'x', embedded: true }, columns: 80, rows: 24, now }) };
  const listeners: (() => void)[] = [];
  const written: string[] = [];
  const store = {
    get state() {
      return state;
    },
    subscribe: (listener: () => void) => listeners.push(listener),
  };
  tellEnds(store, (text) => written.push(text), notice);
  for (const event of events) {
    state = reduce(state, { type: 'job-event', event });
    for (const listener of listeners) listener();
  }
  return written;
}

const ENDED_MS = SAMPLE_START_MS + 62 * 200;

test('at the end of a job longer than 10 s, the bell rings, or a notification gives name and outcome', () => {
  expect(told(job(60), 'bell', ENDED_MS)).toEqual(['\u0007']);
  expect(told(job(60), 'notification', ENDED_MS)).toEqual([
    '\u001b]9;fa-tui: ✓ fa_v2_wmma passed after 12.2 s\u001b\\',
  ]);
  expect(told(job(60), 'none', ENDED_MS)).toEqual([]);
});

test('neither a short job nor a job that ended long before it was shown rings the bell', () => {
  expect([told(job(20), 'bell', ENDED_MS), told(job(60), 'bell', ENDED_MS + 600_000)]).toEqual([[], []]);
});
