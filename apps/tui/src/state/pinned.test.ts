import { JobState, Outcome, TimingMode, type JobEvent } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { eventsOf } from '../testing/sample-job.ts';
import { initialState, KERNEL_SORTS } from './app-state.ts';
import { pinnedComparison, samplesOf } from './pinned.ts';
import { Store } from '../session/store.ts';
import { historyOf, kernelsOf } from './selectors.ts';
import { fakeRunner } from '../testing/fake-runner.ts';

const shape = { batch: 2, heads: 8, sequenceLength: 512, headDim: 64, causal: false };

/** A job that measured one shape on `device`; its samples' artifact is named `digest`. */
const job = (name: string, digest: string, { device = 'NVIDIA L4', simulated = false } = {}): JobEvent[] =>
  eventsOf(
    [
      { case: 'created', value: { job: { name, label: name } } },
      { case: 'started', value: { device: { name: device, simulated } } },
      { case: 'buildResult', value: { succeeded: true, entries: [{ entry: 'k', registersPerThread: 56 }] } },
      {
        case: 'benchmarkResult',
        value: {
          shape,
          mode: TimingMode.HOT,
          simulated,
          latency: { samples: 100, p50Us: 10 },
          samples: { sha256: digest },
        },
      },
      { case: 'finished', value: { outcome: Outcome.PASSED } },
    ],
    name,
  );

const around = (middle: number): number[] => Array.from({ length: 101 }, (_, index) => middle + (index - 50) / 100);

function verdictOf(a: JobEvent[], b: JobEvent[], samples: Record<string, number[]>) {
  const store = new Store({
    state: initialState({ runner: { label: 'x', embedded: true }, columns: 80, rows: 24, now: 0 }),
  });
  for (const event of [...a, ...b]) store.dispatch({ type: 'job-event', event });
  store.dispatch({ type: 'attach', job: a[0]!.job });
  store.dispatch({ type: 'pin', job: b[0]!.job });
  for (const [sha256, values] of Object.entries(samples)) store.dispatch({ type: 'samples', sha256, samples: values });
  expect(store.state.views[a[0]!.job]?.state).toBe(JobState.ENDED);
  return pinnedComparison(store.state)?.pairs[0];
}

test('the ratio is the pinned median divided by the shown one, and its interval decides the verdict', () => {
  const faster = verdictOf(job('a', 'sa'), job('b', 'sb'), { sa: around(10), sb: around(12) });
  expect(faster).toMatchObject({ verdict: 'faster' });
  expect(faster?.ratio?.ratio).toBeCloseTo(1.2, 10);
  expect(faster!.ratio!.low).toBeGreaterThan(1.15);
  expect(verdictOf(job('a', 'sa'), job('b', 'sb'), { sa: around(12), sb: around(10) })?.verdict).toBe('slower');
  expect(verdictOf(job('a', 'sa'), job('b', 'sb'), { sa: around(10), sb: around(10) })?.verdict).toBe(
    'no difference shown',
  );
});

test.each([
  ['simulated times', job('a', 'sa', { simulated: true }), /not GPU times/],
  ['times of another device', job('a', 'sa', { device: 'NVIDIA H200' }), /other device: NVIDIA L4/],
  ['times without samples', job('a', 'elsewhere'), /samples are not here/],
])('%s are not compared', (_, a, reason) => {
  const pair = verdictOf(a, job('b', 'sb'), { sa: around(10), sb: around(12) });
  expect([pair?.ratio, pair?.verdict]).toEqual([undefined, undefined]);
  expect(pair?.notCompared).toMatch(reason);
});

test('samples are little-endian floats, and dropped ones are left out', () => {
  const bytes = Buffer.alloc(16 + 1);
  [1.5, 0, 2.5, 4].forEach((value, index) => bytes.writeFloatLE(value, 1 + index * 4));
  expect(samplesOf(bytes.subarray(1))).toEqual([1.5, 2.5, 4]);
});

test('the history is sorted and filtered as requested; emulator times come after GPU times', async () => {
  const store = new Store({
    state: initialState({ runner: { label: 'x', embedded: true }, columns: 80, rows: 24, now: 0 }),
  });
  const [first] = (await fakeRunner().listExperiments()).experiments;
  const experiment = (label: string, p50Us: number | undefined, simulated: boolean, maxAbsError: number) =>
    ({ ...first!, job: { ...first!.job!, label, name: label }, p50Us, simulated, maxAbsError }) as NonNullable<
      typeof first
    >;
  store.dispatch({
    type: 'experiments',
    experiments: [
      experiment('slow', 9, false, 1),
      experiment('emulated', 1, true, 3),
      experiment('fast', 2, false, 2),
      experiment('unmeasured', undefined, false, 0),
    ],
  });
  const labels = () => historyOf(store.state).map(({ job: ended }) => ended?.label);
  expect(labels()).toEqual(['slow', 'emulated', 'fast', 'unmeasured']);
  store.dispatch({ type: 'history-order', sort: 'latency' });
  expect(labels()).toEqual(['fast', 'slow', 'unmeasured', 'emulated']);
  store.dispatch({ type: 'history-order', sort: 'error' });
  expect(labels()).toEqual(['emulated', 'fast', 'slow', 'unmeasured']);
  store.dispatch({ type: 'list-filter', list: 'history', text: 'ast' });
  expect(labels()).toEqual(['fast']);
});

test('kernels are sorted by the results of their last experiment, and kernels that never ran come last', async () => {
  const store = new Store({
    state: initialState({ runner: { label: 'x', embedded: true }, columns: 80, rows: 24, now: 0 }),
  });
  const runner = fakeRunner();
  const [first] = (await runner.listExperiments()).experiments;
  const ran = (kernelId: string, change: Partial<NonNullable<typeof first>>) =>
    ({ ...first!, job: { ...first!.job!, kernelId, outcome: Outcome.PASSED }, ...change }) as NonNullable<typeof first>;
  store.dispatch({ type: 'kernels', kernels: (await runner.listKernels()).kernels });
  store.dispatch({
    type: 'experiments',
    experiments: [
      ran('flashcore_v6', { p50Us: 9, simulated: false, registersPerThread: 64 }),
      // An older experiment of the same kernel, which must be ignored.
      ran('flashcore_v6', { p50Us: 1, simulated: false, registersPerThread: 1 }),
      ran('fa_v2_wmma', { p50Us: 5, simulated: true, registersPerThread: 56 }),
    ],
  });
  const first2 = (sort: (typeof KERNEL_SORTS)[number]) => {
    store.dispatch({ type: 'kernel-order', sort });
    return kernelsOf(store.state)
      .slice(0, 2)
      .map(({ kernelId }) => kernelId);
  };
  expect([first2('latency'), first2('registers'), first2('ladder')[0], first2('name')[0]]).toEqual([
    ['flashcore_v6', 'fa_v2_wmma'],
    ['fa_v2_wmma', 'flashcore_v6'],
    'fa_v1_baseline',
    'broken',
  ]);
});
