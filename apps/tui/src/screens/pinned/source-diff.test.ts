import { ArtifactKind, Outcome, TimingMode, type JobEvent } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import { initialState } from '../../state/app-state.ts';
import { pinnedComparison } from '../../state/pinned.ts';
import { Store } from '../../session/store.ts';
import { eventsOf } from '../../testing/sample-job.ts';
import { sourceDiffRows } from './source-diff.ts';

/** A job with the common source that timed a shape of `sequenceLength`. */
const job = (
  name: string,
  { sequenceLength = 512, buildId = 'b1', label = 'N=1', version = '12.4', flag = '-O3' } = {},
): JobEvent[] =>
  eventsOf(
    [
      { case: 'created', value: { job: { name, label: name } } },
      { case: 'phaseStarted', value: { variant: label } },
      {
        case: 'buildResult',
        value: {
          succeeded: true,
          buildId,
          arch: 'sm_90a',
          runs: [{ compiler: 'nvcc', version, arguments: [flag] }],
          artifacts: [{ kind: ArtifactKind.SOURCE, fileName: 'k.cu', sha256: 'same' }],
        },
      },
      {
        case: 'benchmarkResult',
        value: {
          shape: { batch: 2, heads: 8, sequenceLength, headDim: 64 },
          mode: TimingMode.HOT,
          latency: { samples: 100, p50Us: 10 },
        },
      },
      { case: 'finished', value: { outcome: Outcome.PASSED } },
    ],
    name,
  );

test.each([
  [
    'the shape',
    { sequenceLength: 2048 },
    'Both jobs compiled the same code: they differ in the shapes that were timed.',
  ],
  [
    'a parameter and the shape',
    { sequenceLength: 2048, buildId: 'b2', label: 'N=2' },
    'Both jobs compiled the same code: they differ in parameters (N=1 and N=2) and in the shapes that were timed.',
  ],
  ['flags', { buildId: 'b2', flag: '-O2' }, "Both jobs compiled the same code: they differ in the compiler's flags."],
  [
    'the compiler',
    { buildId: 'b2', version: '12.6' },
    'Both jobs compiled the same code: they differ in compiler (nvcc 12.4 and nvcc 12.6).',
  ],
  [
    'only the notes',
    { buildId: 'b2' },
    'Both jobs compiled the same code: they differ in files that are not compiled, such as kernel.yaml or NOTES.md.',
  ],
  ['nothing', {}, 'Both jobs compiled the same code into the same build.'],
])('for equal sources the text names the other differences: %s', (_, other, wanted) => {
  const store = new Store({
    state: initialState({ runner: { label: 'x', embedded: true }, columns: 80, rows: 24, now: 0 }),
  });
  for (const event of [...job('a'), ...job('b', other)]) store.dispatch({ type: 'job-event', event });
  store.dispatch({ type: 'attach', job: 'b' });
  store.dispatch({ type: 'pin', job: 'a' });
  expect(
    sourceDiffRows(store.state, pinnedComparison(store.state)!, 80).map(rowText).join(' ').replace(/\s+/g, ' ').trim(),
  ).toBe(wanted);
});
