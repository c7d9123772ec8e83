/**
 * Tests each file format for other programs against a golden and its schema as data (hyperfine 1.20, Bencher's
 * bmf.json, github-action-benchmark of 2026-03-31, SARIF 2.1.0 with GitHub's limits, JUnit as CI services read it,
 * trace events).
 */
import { create } from '@bufbuild/protobuf';
import { FindingKind, GetJobResponseSchema, Outcome, Verdict, type GetJobResponse } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import * as z from 'zod';
import { ladderJob } from '../testing/measured-job.ts';
import { sampleEvents } from '../testing/sample-job.ts';
import { JOB_FORMATS, type JobFormatName } from './report-formats.ts';
import { traceOf } from './sources.ts';
import { JOB_WRITERS } from './writers.ts';

const measured = ladderJob('flashcore_v11');

/** Text that a candidate's author could write and that GitHub would act on. */
const HOSTILE = '@octocat https://evil.example [click](https://evil.example) <b> ::error::x %0A\n| # 1\u001b[2J\u202e';

const failed = create(GetJobResponseSchema, {
  job: { name: 'jobs/11111111-0000', kernelId: 'mine', label: 'mine', outcome: Outcome.WRONG_RESULT },
  result: {
    variants: [
      {
        label: 'default',
        build: {
          arch: 'sm_89',
          succeeded: true,
          diagnostics: [
            { severity: 'warning', file: 'a b.cu', line: 7, column: 3, message: HOSTILE, tool: 'nvcc' },
            { severity: 'error', file: '/usr/include/x.h', line: 1, column: 0, message: 'not ours', tool: 'nvcc' },
          ],
        },
        verify: {
          cases: [
            { shape: { batch: 1, heads: 1, sequenceLength: 16, headDim: 64 }, verdict: Verdict.FAIL, reason: HOSTILE },
            { shape: { batch: 2, heads: 1, sequenceLength: 16, headDim: 64 }, verdict: Verdict.NOT_MEASURED },
          ],
        },
        findings: [{ kind: FindingKind.NAN_OUTPUT, message: HOSTILE, remedy: 'Divide by the row sum' }],
        gates: [
          {
            gateId: 'a',
            title: 'Registers',
            verdict: Verdict.FAIL,
            value: 90,
            comparison: '<=',
            target: 64,
            unit: 'registers',
            level: 'hard',
          },
          { gateId: 'b', title: 'Spills', verdict: Verdict.NOT_MEASURED, comparison: '==', target: 0, level: 'warn' },
        ],
      },
    ],
  },
});
const lost = create(GetJobResponseSchema, {
  job: { name: 'jobs/22222222-0000', kernelId: 'lost', label: 'lost', outcome: Outcome.ERROR, summary: 'no device' },
});
const JOBS: readonly GetJobResponse[] = [measured, failed, lost];
const written = (format: JobFormatName): string =>
  JOB_WRITERS[format](JOBS, { folder: 'kernels/mine', suite: 'flashcore' });

const finite = z.number();
const text = z.string().min(1);
const bounded = z.strictObject({ value: finite, lower_value: finite.optional(), upper_value: finite.optional() });
const RELATIVE_URI = /^(?!\/|[a-z][a-z\d+.-]*:)(?!.*(?:^|\/)\.\.(?:\/|$))(?:[\w.~!$&'()*+,;=:@/-]|%[\dA-F]{2})+$/i;
const sarifResult = z.strictObject({
  ruleId: text,
  level: z.enum(['none', 'note', 'warning', 'error']),
  message: z.strictObject({ text }),
  locations: z
    .array(
      z.strictObject({
        physicalLocation: z.strictObject({
          artifactLocation: z.strictObject({ uri: z.string().regex(RELATIVE_URI) }),
          region: z.strictObject({ startLine: z.int().min(1), startColumn: z.int().min(1).optional() }),
        }),
      }),
    )
    .min(1)
    .max(1000),
  partialFingerprints: z.strictObject({ primaryLocationLineHash: z.string().regex(/^[0-9a-f]{32}$/) }),
});

const JSON_SCHEMAS = {
  sarif: z.strictObject({
    $schema: z.url(),
    version: z.literal('2.1.0'),
    runs: z
      .array(
        z.strictObject({
          tool: z.strictObject({
            driver: z.strictObject({
              name: text,
              informationUri: z.url().optional(),
              rules: z.array(z.strictObject({ id: text, shortDescription: z.strictObject({ text }) })),
            }),
          }),
          results: z.array(sarifResult).max(25_000),
        }),
      )
      .min(1)
      .max(20),
  }),
  'github-action-benchmark': z.array(
    z.strictObject({ name: text, unit: text, value: finite, range: text.optional(), extra: text.optional() }),
  ),
  bencher: z.record(z.string().min(1).max(1024), z.record(z.string().min(1).max(64), bounded)),
  hyperfine: z.strictObject({
    results: z.array(
      z.strictObject({
        command: text,
        mean: finite,
        stddev: finite,
        median: finite,
        user: finite,
        system: finite,
        min: finite,
        max: finite,
        times: z.array(finite),
        exit_codes: z.array(z.int().nullable()),
        parameters: z.record(z.string(), z.string()),
      }),
    ),
  }),
  'eval-results': z.record(
    z.string().regex(/^[1-9]\d*$/),
    z.array(
      z.strictObject({
        sample_id: z.int(),
        compiled: z.boolean(),
        correctness: z.boolean(),
        metadata: z.record(z.string(), z.unknown()),
        runtime: finite,
        runtime_stats: z.record(z.string(), z.union([finite, text])),
      }),
    ),
  ),
  'fast-p': z.array(
    z.strictObject({
      place: text,
      total_count: z.int(),
      compiled_count: z.int(),
      correct_count: z.int(),
      compilation_rate: z.number().min(0).max(1),
      correctness_rate: z.number().min(0).max(1),
      jobs: z.array(text),
      baseline: text,
      geo_mean_speedup: finite.nullable(),
      fast_p: z.record(z.string().regex(/^\d\.\d$/), z.number().min(0).max(1).nullable()),
    }),
  ),
} satisfies Partial<Record<JobFormatName, z.ZodType>>;

test.each(Object.entries(JSON_SCHEMAS))('%s follows its schema', (format, schema) => {
  expect(() => schema.parse(JSON.parse(written(format as JobFormatName)))).not.toThrow();
});

const resultsOf = (jobs: readonly GetJobResponse[]) =>
  JSON_SCHEMAS.sarif.parse(JSON.parse(JOB_WRITERS.sarif(jobs, { folder: 'kernels/mine', suite: '' }))).runs[0]!.results;

test('SARIF reports a gate that is missed again with another value as the same alert', () => {
  const again = structuredClone(failed);
  again.result!.variants[0]!.gates[0]!.value = 91;
  const prints = (job: GetJobResponse) => resultsOf([job]).map(({ partialFingerprints }) => partialFingerprints);
  expect(prints(again)).toEqual(prints(failed));
  expect(new Set(prints(failed).map((each) => JSON.stringify(each))).size).toBe(4);
});

test('SARIF reports problems in headers at the manifest, and its messages contain no links', () => {
  const results = resultsOf(JOBS);
  const header = results.find(({ message }) => message.text === '/usr/include/x.h:1: not ours')!;
  expect(header.locations[0]!.physicalLocation).toEqual({
    artifactLocation: { uri: 'kernels/mine/kernel.yaml' },
    region: { startLine: 1 },
  });
  expect(results.filter(({ message }) => /(?<!\\)\[/.test(message.text))).toEqual([]);
});

test.each(JOB_FORMATS)('%s has no control characters', (format) => {
  expect(written(format)).not.toMatch(/[^\P{Cc}\n]|\\u00[01]|[\u202a-\u202e]/u);
});

test.each(JOB_FORMATS)('%s matches its golden', async (format) => {
  await expect(written(format)).toMatchFileSnapshot(`goldens/format-${format}.txt`);
});

/** Elements of JUnit: their parents, required attributes and optional ones. */
const JUNIT: Readonly<Record<string, { in: string; must: string[]; may?: string[] }>> = {
  testsuites: { in: '', must: ['name'] },
  testsuite: { in: 'testsuites', must: ['name', 'tests', 'failures', 'errors', 'skipped'] },
  testcase: { in: 'testsuite', must: ['classname', 'name'], may: ['time'] },
  failure: { in: 'testcase', must: ['message'] },
  error: { in: 'testcase', must: ['message'] },
  skipped: { in: 'testcase', must: ['message'] },
  'system-out': { in: 'testcase', must: [] },
};

test('JUnit elements are below their required parents, and their counts are correct', () => {
  const xml = written('junit');
  const open: string[] = [];
  const counts: Record<string, number> = {};
  for (const [, close, name = '', attributes = '', empty] of xml.matchAll(
    /<(\/?)([\w-]+)((?: [\w-]+="[^"<]*")*)(\/?)>/g,
  )) {
    if (close) {
      expect(open.pop()).toBe(name);
      continue;
    }
    const rule = JUNIT[name]!;
    const names = [...attributes.matchAll(/([\w-]+)="/g)].map(([, key]) => key!);
    expect({ name, in: open.at(-1) ?? '', names: names.filter((key) => !rule.may?.includes(key)) }).toEqual({
      name,
      in: rule.in,
      names: rule.must,
    });
    counts[name] = (counts[name] ?? 0) + 1;
    if (!empty) open.push(name);
  }
  expect(open).toEqual([]);
  const told = (key: string): number =>
    [...xml.matchAll(new RegExp(` ${key}="(\\d+)"`, 'g'))].reduce((sum, [, number]) => sum + Number(number), 0);
  expect([told('tests'), told('failures'), told('errors'), told('skipped')]).toEqual(
    ['testcase', 'failure', 'error', 'skipped'].map((name) => counts[name] ?? 0),
  );
});

test('annotations contain only workflow commands, whatever a compiler prints', () => {
  const lines = written('github').trimEnd().split('\n');
  const command = /^::(?:error|warning|notice) file=[^,:]+,line=[1-9]\d*(?:,col=[1-9]\d*)?,title=[^,:]+::[^\r\n]+$/;
  expect(lines.filter((line) => !command.test(line))).toEqual([]);
  expect(lines.length).toBeGreaterThan(3);
});

test("a pull request's comment begins with its marker and mentions nobody", () => {
  const body = written('pull-request');
  expect(body).toMatch(/^<!-- flashcore:flashcore -->\n/);
  expect(body).not.toMatch(/@\w|:\/\/|[^\\]\[click|[^\\]<b>/);
  expect(body).toContain('octocat');
});

const track = { pid: z.int(), tid: z.int() };
const TRACE_EVENTS = z.strictObject({
  displayTimeUnit: z.enum(['ms', 'ns']),
  traceEvents: z.array(
    z.discriminatedUnion('ph', [
      z.strictObject({
        ph: z.literal('X'),
        name: text,
        cat: text,
        ts: z.number().min(0),
        dur: z.number().min(0),
        ...track,
        args: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
      }),
      z.strictObject({
        ph: z.literal('M'),
        name: z.enum(['process_name', 'thread_name']),
        ...track,
        args: z.strictObject({ name: text }),
      }),
    ]),
  ),
});

test('trace events follow their schema and match the golden', async () => {
  const trace = TRACE_EVENTS.parse(traceOf(sampleEvents()));
  const named = new Set(trace.traceEvents.filter(({ ph }) => ph === 'M').map(({ tid }) => tid));
  expect(trace.traceEvents.filter(({ ph, tid }) => ph === 'X' && !named.has(tid))).toEqual([]);
  await expect(`${JSON.stringify(trace, null, 1)}\n`).toMatchFileSnapshot('goldens/format-trace-events.txt');
});

test('spills and bank conflicts are warnings, which do not fail a CI job', () => {
  const spilled = create(GetJobResponseSchema, {
    job: { name: 'jobs/33333333-0000', kernelId: 'mine', label: 'mine', outcome: Outcome.PASSED },
    result: {
      variants: [
        {
          build: { arch: 'sm_89', succeeded: true },
          findings: [
            { kind: FindingKind.REGISTER_SPILLS, message: 'mine spills' },
            { kind: FindingKind.BANK_CONFLICTS, message: 'of 32 lanes' },
          ],
        },
      ],
    },
  });
  const told = (format: JobFormatName) =>
    JOB_WRITERS[format]([spilled], { folder: 'kernels/mine', suite: 'flashcore' });
  expect(told('junit')).toContain('tests="3" failures="0" errors="0"');
  const { runs } = JSON_SCHEMAS.sarif.parse(JSON.parse(told('sarif')));
  expect(runs[0]!.results.map(({ ruleId, level }) => [ruleId, level])).toEqual([
    ['register-spills', 'warning'],
    ['bank-conflicts', 'warning'],
  ]);
});
