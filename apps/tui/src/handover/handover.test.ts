import { create } from '@bufbuild/protobuf';
import {
  FindingKind,
  GetJobResponseSchema,
  JobEventSchema,
  Phase,
  Verdict,
  type GetJobResponse,
} from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { ladderJob } from '../testing/measured-job.ts';
import { actionBenchmark, bencherMetrics, hyperfineResults } from './benchmark-files.ts';
import { figuresOf } from './figures.ts';
import { finalReport } from './final-report.ts';
import { traceOf } from './sources.ts';
import { JOB_WRITERS, PAGE_WRITERS } from './writers.ts';
import { annotations, problemsOf, sarif } from './problems.ts';
import { JOB_FORMATS, PAGE_FORMATS } from './report-formats.ts';

/** Results measured on an H200, as the runner reported them. */
const measured = ladderJob('flashcore_v11');
const broken = create(GetJobResponseSchema, {
  job: { name: 'jobs/0000', kernelId: 'mine' },
  result: {
    variants: [
      {
        label: 'default',
        build: {
          diagnostics: [
            { severity: 'error', file: 'mine.cu', line: 7, column: 3, message: '"x" is 100 % wrong', tool: 'nvcc' },
          ],
        },
        findings: [{ kind: FindingKind.COMPILE_FAILED, message: 'does not compile', remedy: 'Repair line 7' }],
        gates: [
          {
            gateId: 'registers',
            title: 'Registers',
            verdict: Verdict.FAIL,
            value: 90,
            comparison: '<=',
            target: 64,
            level: 'hard',
          },
        ],
      },
    ],
  },
});
const hot = figuresOf([measured]).find(({ mode }) => mode === 'hot')!;

test('benchmark files have the measured medians in their own units', () => {
  const { p50Us, meanUs } = hot.benchmark.latency!;
  const name = `${hot.kernel} 2x8x512x64 hot`;
  const figures = figuresOf([measured]);
  expect(actionBenchmark(figures)).toContainEqual(expect.objectContaining({ name, unit: 'us', value: p50Us }));
  expect(bencherMetrics(figures)).toMatchObject({ [name]: { latency: { value: p50Us * 1000 } } });
  expect(hyperfineResults(figures)).toMatchObject({
    results: expect.arrayContaining([expect.objectContaining({ command: name, mean: meanUs / 1e6 })]) as unknown[],
  });
});

test("no benchmark file contains emulator times, and the page's table labels them", () => {
  const simulated: GetJobResponse = structuredClone(measured);
  for (const { benchmarks } of simulated.result!.variants) for (const each of benchmarks) each.simulated = true;
  expect(actionBenchmark(figuresOf([simulated]))).toEqual([]);
  expect(PAGE_WRITERS.markdown(finalReport([simulated]))).toContain('simulated: no GPU times');
});

test('the final report names the job of every figure and separates the devices', () => {
  const page = PAGE_WRITERS.markdown(finalReport([measured, broken]));
  const id = measured.job!.name.slice('jobs/'.length, 'jobs/'.length + 8);
  const rows = page
    .split('\n')
    .filter((line) => line.startsWith('| ') && !line.includes('---') && !/^\| (kernel|job) \|/.test(line));
  expect(rows.length).toBeGreaterThan(2);
  expect(rows.filter((row) => row.includes(id) || row.includes('0000'))).toEqual(rows);
  expect(page).toContain('## NVIDIA H200, flashcore-protocol');
  expect(page).toMatch(/sdpa\/cudnn \| [\d.]+ us \| 1\.\d+ x \\\[1\.\d+, 1\.\d+\\\]/);
  expect(page).toContain('0 of 1 gate passed, 1 failed; rejected by "Registers"');
});

test('SARIF has the places of problems, each rule once, and no absolute path', () => {
  expect(sarif(problemsOf([broken]), 'kernels/mine')).toMatchObject({
    version: '2.1.0',
    runs: [
      {
        tool: { driver: { rules: [{ id: 'compile-failed' }, { id: 'gate-registers' }, { id: 'nvcc-error' }] } },
        results: [
          {
            ruleId: 'nvcc-error',
            level: 'error',
            locations: [
              {
                physicalLocation: {
                  artifactLocation: { uri: 'kernels/mine/mine.cu' },
                  region: { startLine: 7, startColumn: 3 },
                },
              },
            ],
          },
          { ruleId: 'compile-failed', message: { text: 'does not compile. Repair line 7' } },
          { ruleId: 'gate-registers', level: 'error' },
        ],
      },
    ],
  });
});

test("GitHub's annotations escape characters that would end a property or a line", () => {
  expect(annotations(problemsOf([broken]), 'a,b')[0]).toBe(
    '::error file=a%2Cb/mine.cu,line=7,col=3,title=nvcc-error::"x" is 100 %25 wrong',
  );
});

test("a trace has the wait, the device's work and each phase, in sequence", () => {
  const at = (seconds: number) => ({ seconds: BigInt(seconds), nanos: 0 });
  const phase = (which: Phase) => ({ case: 'phaseStarted' as const, value: { phase: which } });
  const events = [
    create(JobEventSchema, { job: 'jobs/1', time: at(10), payload: { case: 'created', value: {} } }),
    create(JobEventSchema, { job: 'jobs/1', time: at(12), payload: { case: 'started', value: {} } }),
    create(JobEventSchema, { job: 'jobs/1', time: at(12), payload: phase(Phase.BUILD) }),
    create(JobEventSchema, { job: 'jobs/1', time: at(15), payload: phase(Phase.VERIFY) }),
    create(JobEventSchema, { job: 'jobs/1', time: at(16), payload: { case: 'finished', value: {} } }),
  ];
  const { traceEvents } = traceOf(events) as { traceEvents: { ph: string; name: string; ts: number; dur: number }[] };
  expect(traceEvents.filter(({ ph }) => ph === 'X').map(({ name, ts, dur }) => [name, ts / 1e6, dur / 1e6])).toEqual([
    ['jobs/1', 10, 6],
    ['waits for the device', 10, 2],
    ['has the device', 12, 4],
    ['build', 12, 3],
    ['verify', 15, 1],
  ]);
});

test.each([...PAGE_FORMATS, ...JOB_FORMATS])('%s can be written for a measured and for a broken job', (format) => {
  const jobs = [measured, broken];
  const text =
    format in PAGE_WRITERS
      ? PAGE_WRITERS[format as keyof typeof PAGE_WRITERS](finalReport(jobs))
      : JOB_WRITERS[format as keyof typeof JOB_WRITERS](jobs, { folder: 'kernels/mine', suite: 'mine' });
  expect(text.length).toBeGreaterThan(0);
  expect(text.endsWith('\n')).toBe(true);
});
