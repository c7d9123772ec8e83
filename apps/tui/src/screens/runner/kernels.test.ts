import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  ExperimentSummarySchema,
  FindingKind,
  JobKind,
  JobSchema,
  JobState,
  KernelSchema,
  Outcome,
  TimingMode,
  type Job,
} from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import { initialState } from '../../state/app-state.ts';
import { LogBuffer } from '../../state/log-buffer.ts';
import { kernelsView } from './kernels.ts';

function detailOf(notes: string): string {
  const runner = { label: '', embedded: true };
  const state = {
    ...initialState({ runner, columns: 80, rows: 60, now: 0 }),
    kernels: [create(KernelSchema, { kernelId: 'my_attn', title: 'Mine', notes })],
    hasKernels: true,
  };
  const { body } = kernelsView({ state, log: new LogBuffer(1), search: undefined }, { width: 76, height: 56 });
  return body.map((row) => rowText(row).trimEnd()).join('\n');
}

test('short notes are shown in full, and of long notes only the headings', () => {
  expect(detailOf('# my_attn\n\nPadding: 3 % slower.')).toMatch(/# my_attn\n\nPadding: 3 % slower\./);
  const section = (title: string): string => `## ${title}\n\n${'A line.\n'.repeat(12)}`;
  expect(detailOf(`# my_attn\n\n${section('What helped')}\n${section('What did not')}`)).toMatch(
    /\nNOTES\.md {2}31 lines, o opens them\n {2}What helped\n {2}What did not$/,
  );
});

const jobOf = (outcome: Outcome, minutes: number, kind = JobKind.EXPERIMENT) =>
  create(JobSchema, {
    name: `jobs/${minutes}`,
    kind,
    kernelId: 'mine',
    createTime: timestampFromMs(60_000 * minutes),
    state: JobState.ENDED,
    outcome,
  });

/** The row of a kernel ten minutes after its experiment, if other jobs followed, newest first. */
function rowAfter(experiment: Job, ...later: Job[]): string {
  const state = {
    ...initialState({ runner: { label: '', embedded: true }, columns: 120, rows: 60, now: 600_000 }),
    kernels: [create(KernelSchema, { kernelId: 'mine', title: 'Mine' })],
    hasKernels: true,
    jobs: [...later, experiment],
    experiments: [create(ExperimentSummarySchema, { job: experiment })],
  };
  const { body } = kernelsView({ state, log: new LogBuffer(1), search: undefined }, { width: 116, height: 20 });
  return rowText(body[1]!);
}

test('a job that failed after the last experiment passed is the verdict of the row', () => {
  const passed = jobOf(Outcome.PASSED, 0);
  expect(rowAfter(passed)).toMatch(/mine +✓ passed/);
  expect(rowAfter(passed, jobOf(Outcome.COMPILE_FAILED, 2))).toMatch(/mine +✗ compile failed/);
  // A job that was stopped says nothing, and a quick check that passes decides nothing.
  expect(rowAfter(passed, jobOf(Outcome.CANCELLED, 2))).toMatch(/mine +✓ passed/);
  expect(rowAfter(passed, jobOf(Outcome.PASSED, 3), jobOf(Outcome.COMPILE_FAILED, 2))).toMatch(/mine +✓ passed/);
});

test('a job that ended after a stopped experiment is the verdict of the row, with its own time', () => {
  const cancelled = jobOf(Outcome.CANCELLED, 0);
  const row = (...later: Job[]): string => rowAfter(cancelled, ...later);
  expect(row()).toMatch(/mine +○ cancelled .*10 min ago/);
  expect(row(jobOf(Outcome.PASSED, 7, JobKind.TUNE))).toMatch(/mine +✓ passed .*3 min ago/);
  expect(row(jobOf(Outcome.INTERRUPTED, 7, JobKind.TUNE))).toMatch(/mine +○ cancelled/);
});

/** Title and rows of a list of kernels with long names; each was timed at a shape of its own. */
function listOf(width: number, shapes: readonly string[]): string[] {
  const ids = shapes.map((_, index) => `a_kernel_with_a_long_name_${index}`);
  const state = {
    ...initialState({ runner: { label: '', embedded: true }, columns: width + 4, rows: 60, now: 60_000 }),
    kernels: ids.map((kernelId) => create(KernelSchema, { kernelId, title: 'What it is, in many words' })),
    hasKernels: true,
    experiments: shapes.map((shape, index) =>
      create(ExperimentSummarySchema, {
        job: {
          kernelId: ids[index]!,
          createTime: timestampFromMs(0),
          state: JobState.ENDED,
          outcome: Outcome.WRONG_RESULT,
        },
        simulated: true,
        registersPerThread: 56,
        hardGates: 4,
        timings: [TimingMode.HOT, TimingMode.COLD].map((mode) => ({ mode, shape: parseShape(shape), p50Us: 2_139 })),
      }),
    ),
  };
  const { title, body } = kernelsView({ state, log: new LogBuffer(1), search: undefined }, { width, height: 20 });
  return [title, ...body.slice(1, 3).map(rowText)];
}

test.each([76, 82, 116, 160])(
  'in %d cells each time is shown with its shape if the shapes of the kernels differ',
  (width) => {
    const [title, ...rows] = listOf(width, ['1x4x128x64', '1x2x128x64']);
    expect(title).toBe('7 Kernels');
    expect(rows.map((row) => /1x.x128x64 +2\.139 ms sim/.test(row))).toEqual([true, true]);
  },
);

test('the title names the shape that all times of the kernels share', () => {
  const [title, first] = listOf(82, ['1x4x128x64', '1x4x128x64']);
  expect(title).toBe('7 Kernels  p50 at 1x4x128x64');
  expect(first).not.toContain('1x4x128x64');
});

test('a long shape of another problem cuts no verdict', () => {
  const [, ...rows] = listOf(76, ['B=8,D=128,H=8,Hkv=2,Skv=300', '1x2x128x64']);
  expect(rows.map((row) => /wrong result {2}/.test(row))).toEqual([true, true]);
});

test('a faulty kernel whose verification passed says that a whole run finds the fault', () => {
  const detail = (kind: JobKind, outcome: Outcome): string => {
    const state = {
      ...initialState({ runner: { label: '', embedded: true }, columns: 120, rows: 60, now: 600_000 }),
      ui: {
        ...initialState({ runner: { label: '', embedded: true }, columns: 120, rows: 60, now: 0 }).ui,
        faulty: true,
      },
      kernels: [create(KernelSchema, { kernelId: 'bad', title: 'Bad', expectedFinding: FindingKind.BANK_CONFLICTS })],
      hasKernels: true,
      jobs: [create(JobSchema, { name: 'jobs/1', kernelId: 'bad', state: JobState.ENDED, kind, outcome })],
    };
    const { body } = kernelsView({ state, log: new LogBuffer(1), search: undefined }, { width: 76, height: 56 });
    return body.map((row) => rowText(row).trim()).join(' ');
  };
  const must = 'faulty on purpose: a whole run must find "bank conflicts"';
  expect(detail(JobKind.VERIFY, Outcome.PASSED)).toContain(`${must}, and verify alone may pass`);
  expect(detail(JobKind.VERIFY, Outcome.FAILED)).not.toContain('may pass');
  expect(detail(JobKind.EXPERIMENT, Outcome.PASSED)).not.toContain('may pass');
});
