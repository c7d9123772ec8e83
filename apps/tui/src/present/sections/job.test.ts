import { create } from '@bufbuild/protobuf';
import {
  ComparisonVerdict,
  FindingKind,
  JobKind,
  Outcome,
  Verdict,
  FindingSchema,
  GateResultSchema,
  JobErrorSchema,
  JobResultSchema,
  VerifyResultSchema,
} from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { failedExperiment, PLAIN } from '../../testing/result-fixtures.ts';
import type { ReportFormat } from '../plain/report-format.ts';
import { htmlPage } from '../html/html-painter.ts';
import { plainLines } from '../plain/plain-painter.ts';
import { verifyBlocks } from './cases.ts';
import { findingBody } from '../../screens/dashboard/finding-pane.ts';
import { findingsBlocks } from './findings.ts';
import { gatesBlocks } from './gates.ts';
import { jobBlocks, type EndedJob } from './job.ts';

const jobReport = (ended: EndedJob, format: ReportFormat): string[] => plainLines(jobBlocks(ended), format);

test('the report of an experiment has every section, in 80 columns', async () => {
  await expect(jobReport(failedExperiment, PLAIN).join('\n')).toMatchFileSnapshot('../goldens/job-report.txt');
  expect(jobReport(failedExperiment, PLAIN).filter((line) => line.length > 80)).toEqual([]);
});

test('no line except table rows is wider than a narrow terminal', () => {
  const wide = jobReport(failedExperiment, { ...PLAIN, width: 60 }).filter((line) => line.length > 60);
  expect(wide.filter((line) => !/ {2,}\S+ {2,}/.test(line) && !line.includes('sha256'))).toEqual([]);
});

test('a second variant has its own title', () => {
  const { job, result } = failedExperiment;
  const twice = create(JobResultSchema, {
    ...result,
    variants: [result.variants[0]!, { ...result.variants[0]!, label: 'USE_WMMA=0', fallback: true }],
  });
  const titles = jobReport({ job, result: twice }, PLAIN).filter((line) => line.startsWith('=='));
  expect(titles).toEqual([
    '== USE_WMMA=1 ==  the variant asked for',
    '== USE_WMMA=0 ==  the fallback of the variant asked for',
  ]);
});

test("a job that the runner could not carry out shows the reason and the job's name", () => {
  const job = { ...failedExperiment.job, outcome: Outcome.ERROR, summary: 'no compiler' };
  const error = create(JobErrorSchema, {
    reason: 'COMPILER_MISSING',
    message: 'Wanted g++ or clang++; neither is on the PATH. Install g++',
  });
  expect(jobReport({ job, result: undefined, error }, PLAIN)).toEqual([
    'fa_v2_wmma USE_WMMA=1  experiment',
    '  device     emulator',
    '',
    'Result  no compiler',
    '  ✗ COMPILER_MISSING: Wanted g++ or clang++; neither is on the PATH. Install g++',
    'ERROR  jobs/01234567-89ab-4cde-8f01-23456789abcd',
  ]);
});

test('a case without finite elements shows no error, rather than an error of 0', () => {
  const shape = { batch: 1, heads: 2, sequenceLength: 64, headDim: 64 };
  const cases = [
    {
      shape,
      verdict: Verdict.FAIL,
      reason: 'NAN_OUTPUT: all',
      seeds: 1,
      mismatches: 8192n,
      nanCount: 8192n,
      elements: 8192n,
      fp16MaxAbsError: 4e-4,
    },
    {
      shape,
      verdict: Verdict.FAIL,
      seeds: 1,
      maxAbsError: 0.5,
      meanAbsError: 0.25,
      nanCount: 8191n,
      elements: 8192n,
      fp16MaxAbsError: 0.25,
    },
  ];
  const rows = plainLines(verifyBlocks(create(VerifyResultSchema, { cases })), PLAIN).filter((line) =>
    line.startsWith('  1x2x64x64  '),
  );
  expect(rows.map((row) => row.trim().split(/ {2,}/))).toEqual([
    ['1x2x64x64', '✗ FAIL', '-', '-', '-', '-', '8,192', '8,192'],
    ['1x2x64x64', '✗ FAIL', '5.00e-1', '2.50e-1', '0', '2x', '0', '8,191'],
  ]);
});

test('a failed probe is listed with the passed cases; a passed probe needs no row', () => {
  const probe = (sequenceLength: number, ...verdicts: Verdict[]) => ({
    shape: { batch: 1, heads: 2, sequenceLength, headDim: 64 },
    verdict: verdicts.includes(Verdict.FAIL) ? Verdict.FAIL : Verdict.PASS,
    reason: 'WRONG_RESULT',
    inputs: verdicts.map((verdict, index) => ({ distribution: `input_${index}`, verdict })),
  });
  const verify = create(VerifyResultSchema, {
    passedCases: 1,
    cases: [{ shape: { batch: 1, heads: 1, sequenceLength: 64, headDim: 64 }, verdict: Verdict.PASS, seeds: 1 }],
    probes: [probe(333, Verdict.PASS, Verdict.FAIL), probe(200, Verdict.PASS)],
  });
  const lines = plainLines(verifyBlocks(verify), PLAIN);
  expect(lines[0]).toBe('Correctness  1 of 1 case and 1 of 2 probes passed, 0 ms');
  expect(lines.filter((line) => line.includes('probe')).slice(1)).toEqual([
    expect.stringMatching(/^ {2}1x2x333x64 probe {2}✗ FAIL/),
    '  ✗ 1x2x333x64 probe: WRONG_RESULT',
  ]);
});

test('the first wrong case has its error map, in ASCII too; correct cases have none', () => {
  const result = (verdict: Verdict, sequenceLength: number) => ({
    shape: { batch: 1, heads: 2, sequenceLength, headDim: 64 },
    verdict,
    seeds: 1,
    elements: 8192n,
    errorMap: { rows: 2, columns: 2, blockRows: 32, blockColumns: 32, maxAbsError: [1e-3, 1e-3, 1e-3, 0.5] },
  });
  const mapOf = (...verdicts: Verdict[]) => {
    const cases = verdicts.map((verdict, index) => result(verdict, 64 * (index + 1)));
    const lines = plainLines(verifyBlocks(create(VerifyResultSchema, { cases })), { ...PLAIN, ascii: true });
    const from = lines.findIndex((line) => line.includes('Error map of '));
    return from < 0 ? [] : lines.slice(from, from + 5).map((line) => line.trim());
  };
  expect(mapOf(Verdict.PASS)).toEqual([]);
  expect(mapOf(Verdict.PASS, Verdict.FAIL, Verdict.FAIL)).toEqual([
    'Error map of 1x2x128x64: largest |out - reference|',
    'd0       d63',
    's0',
    's32         @@@@@@',
    '32 rows x 32 columns a cell, <= 1.00e-3 to 5.00e-1 (log)',
  ]);
});

test("a gate's color is on its mark, not on its title", () => {
  const gate = create(GateResultSchema, { title: 'parity', verdict: Verdict.FAIL, level: 'hard', detail: 'wrong' });
  const blocks = gatesBlocks([gate]);
  const line = plainLines(blocks, { ...PLAIN, colors: true }).find((each) => each.includes('parity'))!;
  expect(line).toMatch(/m✗(?:\u001B\[[\d;]*m)+ parity/);
  expect(htmlPage('gates', blocks)).toContain('<td><span class="bad">✗</span> parity</td>');
});

test('a gate decided by a modelled figure says so in its verdict, its value and the tally; a measured gate does not', () => {
  const gate = (title: string, verdict: Verdict, level: string, modelled: boolean) =>
    create(GateResultSchema, { title, verdict, level, modelled, value: 3, comparison: '<', target: 5, unit: '%' });
  const lines = plainLines(
    gatesBlocks([
      gate('counted', Verdict.PASS, 'hard', true),
      gate('slow', Verdict.FAIL, 'hard', true),
      gate('wide', Verdict.FAIL, 'warn', true),
      gate('read', Verdict.PASS, 'hard', false),
    ]),
    PLAIN,
  );
  expect(lines[0]).toBe('Gates  2 of 3 hard gates passed, 1 failed, 2 of them modelled, 1 warning');
  const row = (title: string) =>
    lines
      .find((line) => line.includes(` ${title} `))
      ?.trim()
      .split(/ {2,}/)
      .slice(0, 3);
  expect(['counted', 'slow', 'wide', 'read'].map(row)).toEqual([
    ['✓ counted', 'pass (modelled)', '~3 %'],
    ['✗ slow', 'FAIL (modelled)', '~3 %'],
    ['⚠ wide', 'warns (modelled)', '~3 %'],
    ['✓ read', 'pass', '3 %'],
  ]);
});

test('the distance between two percentages is in points', () => {
  const gate = (unit: string, value: number, target: number) =>
    create(GateResultSchema, {
      ...{ gateId: 'g', title: 'SMs with work', verdict: Verdict.FAIL, level: 'warn', comparison: '>=' },
      ...{ value, target, unit },
    });
  const distances = [gate('%', 27.6, 80), gate('share', 0.276, 0.8), gate('us', 20, 25)].map((each) =>
    plainLines(gatesBlocks([each]), PLAIN)[2]!
      .split(/ {2,}/)
      .at(-1),
  );
  expect(distances).toEqual(['52.4 points short', '52.4 points short', '20 % short']);
});

test('a finding about a deadlock lists its threads as ranges, and one about an access names the place', () => {
  const waiting = Array.from({ length: 40 }, (_, x) => ({
    thread: [x, 0, 0],
    block: [2, 1, 0],
    place: x < 32 ? 'waits at __syncthreads, divergent_barrier.cu:31' : 'has returned',
  }));
  const finding = create(FindingSchema, {
    kind: FindingKind.DEADLOCK,
    message: '128 threads wait.',
    remedy: 'Let every thread reach the barrier.',
    threads: waiting,
    threadCount: 128,
    cudaError: 'CUDA_ERROR_LAUNCH_FAILED',
    location: {
      file: 'divergent_barrier.cu',
      line: 31,
      block: [2, 1, 0],
      thread: [0, 0, 0],
      access: 'write',
      accessBytes: 2,
      address: '0x7f00',
      buffer: '16 bytes past the end of O',
    },
  });
  expect(plainLines(findingsBlocks([finding]), PLAIN)).toEqual([
    'Findings',
    '  DEADLOCK',
    '    128 threads wait.',
    '    where      divergent_barrier.cu:31, block (2, 1, 0), thread (0, 0, 0), write',
    '               of 2 bytes at 0x7f00, 16 bytes past the end of O',
    '    threads    block (2, 1, 0) 0-31 waits at __syncthreads,',
    '               divergent_barrier.cu:31',
    '    threads    block (2, 1, 0) 32-39 has returned',
    '    threads    and 88 more, 128 in all',
    '    CUDA       CUDA_ERROR_LAUNCH_FAILED',
    '    remedy     Let every thread reach the barrier.',
  ]);
});

test('a finding names the distributions of its inputs and the options that repeat them', () => {
  const on = (...inputs: [string, string][]) =>
    create(FindingSchema, {
      kind: FindingKind.WRONG_RESULT,
      message: 'wrong',
      inputs: inputs.map(([seed, distribution]) => ({ seed, distribution })),
    });
  const [one, five] = [on(['5c0e', 'max_last']), on(['1', 'a'], ['2', 'a'], ['3', 'b'], ['4', 'c'], ['5', 'd'])];
  expect(plainLines(findingsBlocks([one, five]), PLAIN)).toEqual([
    'Findings',
    '  WRONG RESULT',
    '    wrong',
    '    input      max_last: --seed 5c0e@max_last',
    '  WRONG RESULT',
    '    wrong',
    '    inputs     a, b and 2 more: --seed 1@a --seed 2@a --seed 3@b',
  ]);
  const rows = findingBody({ finding: one }, { width: 60, height: 9 });
  expect(rows.map((row) => row.map(({ text }) => text).join(''))).toEqual([
    'wrong',
    'input max_last: --seed 5c0e@max_last',
  ]);
});

test("a finding about a race omits the error of the launch that the emulator's checker stopped", () => {
  const cudaError = 'CUDA_ERROR_LAUNCH_FAILED';
  const raced = create(FindingSchema, { kind: FindingKind.RACE, message: 'two threads, one byte', cudaError });
  expect(plainLines(findingsBlocks([raced]), PLAIN)).toEqual(['Findings', '  RACE', '    two threads, one byte']);
});

test('a benchmark whose speed was not judged says so in its last line', () => {
  const last = (kind: JobKind, verdict: ComparisonVerdict, simulated = false): string => {
    const { job } = failedExperiment;
    const comparison = verdict === ComparisonVerdict.UNSPECIFIED ? undefined : { verdict };
    const variants = [{ benchmarks: [{ simulated }], ...(comparison && { comparison }) }];
    const ended = {
      job: { ...job, kind, outcome: Outcome.PASSED, summary: '' },
      result: create(JobResultSchema, { variants }),
    };
    return jobReport(ended, PLAIN).at(-1)!.split('  ')[0]!;
  };
  const { FASTER, NOT_JUDGED, UNSPECIFIED } = ComparisonVerdict;
  expect([
    last(JobKind.BENCHMARK, NOT_JUDGED),
    last(JobKind.BENCHMARK, FASTER),
    last(JobKind.BENCHMARK, UNSPECIFIED, true),
    last(JobKind.BENCHMARK, UNSPECIFIED),
    last(JobKind.EXPERIMENT, NOT_JUDGED),
  ]).toEqual(['PASSED, SPEED NOT JUDGED', 'PASSED', 'PASSED, SPEED NOT JUDGED', 'PASSED', 'PASSED']);
});

test('what documentation lacks is missing, and what is left to do is left before accepting', () => {
  const gate = create(GateResultSchema, {
    ...{ title: 'Documentation', verdict: Verdict.NOT_JUDGED, level: 'hard', unit: 'parts' },
    ...{ value: 1, comparison: '==', target: 0 },
  });
  const [title, , row] = plainLines(gatesBlocks([gate]), PLAIN);
  expect(title).toBe('Gates  no hard gate failed, 1 to do before accepting');
  expect(row).toMatch(/1 part missing +none missing +to write/);
});
