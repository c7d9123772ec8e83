/** Tests rbk_config.yaml and its reports, KernelBench's figures, a pull request's comment, and JUnit for lost jobs. */
import { create } from '@bufbuild/protobuf';
import {
  FindingKind,
  GetJobResponseSchema,
  JobState,
  Outcome,
  SdpaReuseSchema,
  Verdict,
  type GetJobResponse,
} from '@flashcore/shared/contract';
import path from 'node:path';
import { measuredFolder } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import * as z from 'zod';
import { bencherMetrics } from './benchmark-files.ts';
import { figuresOf } from './figures.ts';
import { evalResults, fastP } from './kernelbench-eval.ts';
import { markerOf, pullRequestComment } from './pull-request.ts';
import { parseRbkConfig } from './rbk-config.ts';
import { rbkReports } from './rbk-report.ts';
import { FileSource } from './sources.ts';
import { JOB_WRITERS } from './writers.ts';

const jobsOf = (campaign: string, ...files: string[]): readonly GetJobResponse[] =>
  new FileSource(files.map((file) => path.join(measuredFolder(campaign), file))).jobs;
const [run] = jobsOf('h200-2026-11-21', 'run.flashcore_v11.json') as [GetJobResponse];
const ladder = jobsOf('h200-2026-11-21', ...['v6', 'v10', 'v11'].map((id) => `run.flashcore_${id}.json`));
const SETTINGS = { folder: '', suite: 'flashcore' };

const CONFIG = `
warmups: 10
iterations: 200
output_dir: out
save_csv: true
shapes:
  - { name: canonical, batch_size: 2, num_heads: 8, seq_len: 512, head_dim: 64, dtype: fp16 }
  - { batch_size: 1, num_heads: 8, seq_len: 512, head_dim: 64, causal: true }
`;

test('rbk_config.yaml gives the shapes, the iterations and the files to write', () => {
  expect(parseRbkConfig(CONFIG, 'rbk_config.yaml')).toEqual({
    dtype: 'fp16',
    warmups: 10,
    iterations: 200,
    outputFolder: 'out',
    saves: { json: true, csv: true, markdown: true },
    shapes: [
      { name: 'canonical', shape: '2x8x512x64' },
      { name: '1x8x512x64c', shape: '1x8x512x64c' },
    ],
  });
});

test('the global dtype of rbk_config.yaml applies to every shape that does not name one', () => {
  const all = `dtype: bfloat16\n${CONFIG.replace('dtype: fp16', 'dtype: bf16')}`;
  expect(parseRbkConfig(all, 'rbk_config.yaml').dtype).toBe('bf16');
});

test.each([
  [
    'shapes of different dtypes',
    CONFIG.replace('dtype: fp16', 'dtype: bf16'),
    /rbk_config.yaml:8: shapes\[1\]\.dtype: must be bf16, as the first shape's, got fp16: write a file for each dtype/,
  ],
  ['an unsupported dtype for all shapes', `dtype: fp8\n${CONFIG}`, /dtype: must be one of fp16, .*bf16.*, got "?fp8/],
  ['an unknown key', CONFIG.replace('warmups', 'eval_type: kineto\nwarmups'), /unknown key "eval_type"/],
  ['no shapes', 'shapes: []\n', /must have at least one shape/],
  ['a sequence length of 0', CONFIG.replace('seq_len: 512', 'seq_len: 0'), /seq_len.*must be an integer of 1/],
])('rbk_config.yaml with %s is refused with the name of the setting', (_, yaml, message) => {
  expect(() => parseRbkConfig(yaml, 'rbk_config.yaml')).toThrow(message);
});

const RBK_REPORT = z.strictObject({
  version: z.literal(1),
  job: z.string(),
  kernel: z.string(),
  device: z.string(),
  simulated: z.boolean(),
  protocol: z.string(),
  warmups: z.string(),
  iterations: z.int(),
  correct: z.boolean(),
  max_abs_error: z.number(),
  results: z.array(
    z.strictObject({
      name: z.string(),
      shape: z.string().regex(/^\d+x\d+x\d+x\d+c?$/),
      mode: z.enum(['cold', 'hot']),
      dtype: z.enum(['fp16', 'bf16', 'fp32']),
      iterations: z.int(),
      mean_us: z.number(),
      p50_us: z.number(),
      p90_us: z.number(),
      stddev_us: z.number(),
      tflops: z.number().nullable(),
      baseline: z.string().nullable(),
      baseline_mean_us: z.number().nullable(),
      speedup: z.number().nullable(),
      valid: z.boolean(),
    }),
  ),
});

test("rbk_report has the measured figures under the configuration's names, as JSON, Markdown and CSV", async () => {
  const files = rbkReports(parseRbkConfig(CONFIG, 'rbk_config.yaml'), run);
  expect(Object.keys(files)).toEqual(['rbk_report.json', 'rbk_report.csv', 'rbk_report.md']);
  const report = JSON.parse(files['rbk_report.json']!) as { job: string; results: Record<string, unknown>[] };
  const { latency } = run.result!.variants[0]!.benchmarks[0]!;
  expect(report).toMatchObject({ job: run.job!.name, correct: true, simulated: false });
  expect(report.results[0]).toMatchObject({ name: 'canonical', mode: 'cold', mean_us: latency!.meanUs, valid: true });
  RBK_REPORT.parse(report);
  await expect(Object.values(files).join('\n')).toMatchFileSnapshot('goldens/rbk-report.txt');
});

test('a CSV cell can neither break its row nor become a formula', () => {
  const config = parseRbkConfig(CONFIG.replace('canonical', '"=1+1,\\"x\\""'), 'rbk_config.yaml');
  const [, row] = rbkReports(config, run)['rbk_report.csv']!.split('\n');
  expect(row).toMatch(/^"'=1\+1,""x""",2x8x512x64,cold,fp16,/);
});

// The schema of KernelBench's eval_results.json as data (HEAD 423217d, 2026-03-05).
const STATS = z.strictObject({
  mean: z.number(),
  std: z.number(),
  min: z.number(),
  max: z.number(),
  num_trials: z.number().int(),
  hardware: z.string().min(1),
  device: z.string().min(1),
});
const EVAL_RESULTS = z.record(
  z.string().regex(/^[1-9]\d*$/),
  z.array(
    z.strictObject({
      sample_id: z.number().int(),
      compiled: z.boolean(),
      correctness: z.boolean(),
      metadata: z.record(z.string(), z.unknown()),
      runtime: z.number(),
      runtime_stats: z.union([STATS, z.strictObject({})]),
    }),
  ),
);

const broken = create(GetJobResponseSchema, {
  job: { name: 'jobs/broken', kernelId: 'mine', state: JobState.ENDED, outcome: Outcome.COMPILE_FAILED },
  result: { variants: [{ build: { succeeded: false } }] },
});

test('eval_results.json follows its schema: hot figures are in milliseconds, and a missing one is -1', () => {
  const results = EVAL_RESULTS.parse(evalResults([...ladder, ...ladder.slice(0, 1), broken]));
  expect(results['1']!.map(({ sample_id }) => sample_id)).toEqual([0, 1]);
  const hot = run.result!.variants[0]!.benchmarks[1]!.latency!;
  expect(results['3']![0]!.runtime).toBe(hot.meanUs / 1000);
  expect(results['3']![0]!.metadata).toMatchObject({ problem: 'flashcore_v11 2x8x512x64' });
  expect(results['4']).toEqual([
    {
      sample_id: 0,
      compiled: false,
      correctness: false,
      metadata: { problem: 'mine', job: 'jobs/broken' },
      runtime: -1,
      runtime_stats: {},
    },
  ]);
});

test("a job's label gives KernelBench's problem id, and unlabeled jobs get unique ids", () => {
  const labelled = structuredClone(ladder[0]!);
  labelled.job!.labels = { problem_id: '1' };
  const nonsense = structuredClone(broken);
  nonsense.job!.labels = { problem_id: '__proto__' };
  const results = EVAL_RESULTS.parse(evalResults([ladder[1]!, labelled, nonsense]));
  const problems = Object.entries(results).map(([id, [sample]]) => [id, sample!.metadata['problem']]);
  expect(problems).toEqual([
    ['1', 'flashcore_v6 2x8x512x64'],
    ['2', 'flashcore_v10 2x8x512x64'],
    ['3', 'mine'],
  ]);
});

test('fast_p is the share of all kernels that are correct and more than p times as fast as SDPA', () => {
  const [summary, ...others] = fastP([...ladder, broken]) as {
    place: string;
    total_count: number;
    fast_p: Record<string, number>;
    geo_mean_speedup: number;
  }[];
  expect(others).toEqual([]);
  // By the medians in the measured files, v6 is 0.315, v10 1.310 and v11 1.552 times as fast as the fastest backend.
  // The fourth kernel does not compile.
  expect(summary).toMatchObject({
    place: 'NVIDIA H200, flashcore-protocol 3',
    total_count: 4,
    compiled_count: 3,
    correct_count: 3,
    fast_p: { '0.0': 0.75, '0.5': 0.5, '0.8': 0.5, '1.0': 0.5, '1.5': 0.25, '2.0': 0 },
  });
  expect(summary!.geo_mean_speedup).toBeCloseTo(Math.cbrt(0.315 * 1.31 * 1.552), 1);
});

test('each device has its own fast_p, which excludes simulated times', () => {
  const elsewhere = structuredClone(ladder[0]!);
  elsewhere.result!.provenance!.device!.name = 'NVIDIA L4';
  expect((fastP([...ladder, elsewhere]) as { place: string }[]).map(({ place }) => place)).toEqual([
    'NVIDIA H200, flashcore-protocol 3',
    'NVIDIA L4, flashcore-protocol 3',
  ]);
  const simulated = structuredClone(ladder[0]!);
  for (const { benchmarks } of simulated.result!.variants) for (const each of benchmarks) each.simulated = true;
  expect(fastP([simulated])).toMatchObject([
    { place: 'none measured', fast_p: { '0.0': null, '2.0': null }, geo_mean_speedup: null },
  ]);
});

test('fast_p uses only baselines measured in turns with the kernel, never figures of another job', () => {
  const reused = structuredClone(ladder);
  for (const { result } of reused)
    for (const { benchmarks } of result!.variants)
      for (const { sdpa } of benchmarks)
        for (const each of sdpa) each.reused = create(SdpaReuseSchema, { job: 'jobs/other' });
  expect(fastP(reused)).toMatchObject([{ total_count: 3, fast_p: { '0.0': null }, geo_mean_speedup: null }]);
});

test('figures of two devices have different names in one file for a benchmarking service', () => {
  const elsewhere = structuredClone(run);
  elsewhere.result!.provenance!.device!.name = 'NVIDIA L4';
  const names = (jobs: (typeof run)[]) => Object.keys(bencherMetrics(figuresOf(jobs)) as object);
  const name = 'flashcore_v11 SMS=132 2x8x512x64 hot';
  expect(names([run])).toContain(name);
  expect(names([run, elsewhere])).toEqual(
    expect.arrayContaining([
      `${name} (NVIDIA H200, flashcore-protocol 3)`,
      `${name} (NVIDIA L4, flashcore-protocol 3)`,
    ]),
  );
});

test("an invalid figure is marked in a pull request's comment", () => {
  const throttled = structuredClone(run);
  Object.assign(throttled.result!.variants[0]!.benchmarks[0]!, { valid: false, invalidReason: 'throttled by heat' });
  expect(pullRequestComment([throttled], 'attention')).toContain('not valid: throttled by heat');
});

test.each([
  ['a probe found wrong', { probes: [{ verdict: Verdict.FAIL }] }, []],
  ['had a data race', {}, [{ kind: FindingKind.RACE }]],
])('a kernel that %s is not called correct, even if all of its cases passed', (_, verify, findings) => {
  const wrong = create(GetJobResponseSchema, {
    job: { name: 'jobs/wrong', kernelId: 'mine', state: JobState.ENDED, outcome: Outcome.WRONG_RESULT },
    result: {
      variants: [
        {
          build: { succeeded: true },
          verify: { cases: [{ verdict: Verdict.PASS }], passedCases: 1, ...verify },
          findings,
        },
      ],
    },
  });
  expect(evalResults([wrong])['1']).toMatchObject([{ compiled: true, correctness: false }]);
  const files = rbkReports(parseRbkConfig(CONFIG, 'rbk_config.yaml'), wrong);
  expect(JSON.parse(files['rbk_report.json']!)).toMatchObject({ correct: false });
});

test("a pull request's comment begins with its marker, has the comparison, and stays within the limit", async () => {
  const jobs = jobsOf('h200-decide-2026-11-22', 'decide.slower.json');
  const body = pullRequestComment(jobs, 'attention');
  expect(body.startsWith('<!-- flashcore:attention -->\n')).toBe(true);
  await expect(body).toMatchFileSnapshot('goldens/pull-request.txt');
  const many = pullRequestComment(
    Array.from({ length: 400 }, () => jobs[0]!),
    'attention',
  );
  expect(many.length).toBeLessThanOrEqual(65_536);
  expect(many).toMatch(/\|\n\nThe rest did not fit into a comment/);
});

test('a suite’s name can’t end the marker', () => {
  expect(markerOf('a --> <script>')).toBe('<!-- flashcore:a------script- -->');
});

test('in JUnit a job that could not run is an error, and a failed hard gate is a failure', () => {
  const lost = create(GetJobResponseSchema, {
    job: { name: 'jobs/lost', label: 'lost', outcome: Outcome.ERROR, summary: 'no device\nat all' },
  });
  const xml = JOB_WRITERS.junit([lost, ...jobsOf('h200-decide-2026-11-22', 'decide.slower.json')], SETTINGS);
  expect(xml).toContain('<testsuite name="lost" tests="1" failures="0" errors="1" skipped="0">');
  expect(xml).toContain('<error message="no device">no device&#10;at all</error>');
  expect(xml).toMatch(/name="regression: [^>]*><failure/);
});
