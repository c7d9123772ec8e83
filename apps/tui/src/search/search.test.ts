import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  BenchmarkSettingsSchema,
  ComparisonVerdict,
  FindingKind,
  HeldOutVerdict,
  HostSchema,
  JobResultSchema,
  JobSchema,
  KernelReferenceSchema,
  Outcome,
  ProfileSettingsSchema,
  TimingMode,
  VariantSchema,
  Verdict,
  VerifySettingsSchema,
  VariantResultSchema,
} from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { candidateOf } from './candidate-source.ts';
import { MAX_SOURCE_BYTES } from './kernel-source.ts';
import { contentKey } from './evaluate.ts';
import { SCORES, evaluationOf } from './evaluation.ts';
import { type EndedJob, uuidOf } from './experiment.ts';
import { bounded, verifyText } from './feedback.ts';
import { bestOf, cellOf, elitesOf, islandOf, islandsOf, knownBefore, ranked, select } from './population.ts';
import { askProposer } from './proposer.ts';
import { NoProposal, readAnswer, protocolSchemas, type ProposalRequest } from './protocol.ts';
import { searchLines, summaryOf } from './search-report.ts';
import { SearchStore, type SearchPlan } from './search-store.ts';
import { failedTrial, judgedTrial, type Trial } from './trial.ts';

const SHAPE = parseShape('1x1x64x64');

type Variant = Exclude<MessageInitShape<typeof VariantResultSchema>, { $typeName: string }>;

const RIGHT: Variant = {
  label: 'default',
  build: { succeeded: true, entries: [{ entry: 'k', registersPerThread: 64, staticSmemBytes: 1024, ctasPerSm: 4 }] },
  verify: { passedCases: 1, cases: [{ shape: SHAPE, verdict: Verdict.PASS, elements: 4096n, maxAbsError: 1e-3 }] },
};

/** A comparison that found the candidate faster on a GPU. */
const FASTER = {
  ...RIGHT,
  benchmarks: [{ shape: SHAPE, mode: TimingMode.HOT, latency: { p50Us: 10, p90Us: 11 }, tflops: 100, valid: true }],
  comparison: {
    verdict: ComparisonVerdict.FASTER,
    reason: '1.1000 [1.0900, 1.1100] in time',
    shapes: [
      {
        shape: SHAPE,
        mode: TimingMode.HOT,
        verdict: ComparisonVerdict.FASTER,
        time: { ratio: 1.1, low: 1.09, high: 1.11 },
      },
      {
        shape: SHAPE,
        mode: TimingMode.COLD,
        verdict: ComparisonVerdict.FASTER,
        time: { ratio: 3, low: 2.9, high: 3.1 },
      },
    ],
  },
} satisfies Variant;

function ended(variant: Variant): EndedJob {
  return {
    job: create(JobSchema, { name: 'jobs/1', outcome: Outcome.PASSED, summary: 'passed' }),
    result: create(JobResultSchema, {
      variants: [variant],
      deviceSeconds: 2,
      provenance: { device: { simulated: false } },
    }),
  };
}

const identity = { trial: 1, operator: 'init' as const, parents: [0], name: 'n', thought: 't', parameters: {} };
const judge = (variant: Variant, required = ['1x1x64x64']): Trial =>
  judgedTrial(identity, ended(variant), { base: { score: 2 }, required, plan: '' });

describe('a trial', () => {
  test('that is correct and FASTER than its base is accepted, and its score is the base’s score times the hot ratio', () => {
    expect(judge(FASTER)).toMatchObject({ status: 'accepted', score: 2 * 1.1 });
  });

  test.each([
    [HeldOutVerdict.PASSED, { status: 'accepted', score: 2.2 }, { correct: true, combined_score: 1.1 }],
    [HeldOutVerdict.SLOWER, { status: 'valid', score: 2 }, { correct: true, combined_score: 1 }],
    [HeldOutVerdict.NOT_JUDGED, { status: 'valid', score: 2 }, { correct: true, combined_score: 1 }],
    [
      HeldOutVerdict.WRONG,
      { status: 'wrong', score: 0 },
      { correct: false, combined_score: SCORES.RAN + SCORES.SHARE_OF_CASES },
    ],
  ])(
    'that is FASTER gets its status and score from the verdict on held-out shapes: HeldOutVerdict %s',
    (verdict, trial, evaluation) => {
      const detail = `held-out: ${HeldOutVerdict[verdict]}`;
      const judged = judge({ ...FASTER, heldOut: { verdict, detail, shapes: 2 } });
      expect(judged).toMatchObject(trial);
      expect(judged.score).toBeCloseTo(trial.score);
      expect(judged.why).toContain(detail);
      expect(judged.evaluation).toMatchObject({
        ...evaluation,
        text_feedback: expect.stringContaining(detail) as string,
      });
    },
  );

  test('that is correct and within the margin is valid but not accepted', () => {
    const within = { ...FASTER, comparison: { ...FASTER.comparison, verdict: ComparisonVerdict.WITHIN_MARGIN } };
    expect(judge(within).status).toBe('valid');
    expect(judge(RIGHT)).toMatchObject({ status: 'valid', score: 2, why: 'not compared' });
  });

  test.each<[string, Variant]>([
    ...[
      FindingKind.WORK_SKIPPED,
      FindingKind.IMPLAUSIBLE_TIME,
      FindingKind.WRONG_RESULT,
      FindingKind.RACE,
      FindingKind.INPUT_MODIFIED,
    ].map((kind): [string, Variant] => [`has a finding ${FindingKind[kind]}`, { ...FASTER, findings: [{ kind }] }]),
    ['fails a case', { ...FASTER, verify: { passedCases: 0, cases: [{ shape: SHAPE, verdict: Verdict.FAIL }] } }],
    [
      "excludes by its manifest a case that the search's first kernel passed",
      {
        ...FASTER,
        verify: { passedCases: 0, cases: [{ shape: SHAPE, verdict: Verdict.NOT_MEASURED, reason: 'limit' }] },
      },
    ],
    ['was not verified', { ...FASTER, verify: undefined }],
    [
      'was wrong in the comparison',
      {
        ...FASTER,
        comparison: {
          ...FASTER.comparison,
          shapes: [{ reason: "not judged: the candidate's output was wrong at a secret sample" }],
        },
      },
    ],
  ])('that %s is wrong and never accepted, however fast it is', (_, variant) => {
    expect(judge(variant)).toMatchObject({ status: 'wrong', score: 0 });
  });

  test("that does not compile gives the compiler's message as the reason", () => {
    const diagnostics = [{ severity: 'error', file: 'k.cu', line: 3, message: 'expected a ";"', tool: 'nvcc' }];
    const found = judge({ label: '', build: { succeeded: false, diagnostics } });
    expect([found.status, found.why]).toEqual(['not-built', 'nvcc error k.cu:3: expected a ";"']);
  });
});

test('neither a comparison that was not judged nor an invalid time raises the score', () => {
  const [hot] = FASTER.comparison.shapes;
  const notJudged = {
    ...FASTER,
    comparison: {
      ...FASTER.comparison,
      verdict: ComparisonVerdict.NOT_JUDGED,
      shapes: [{ ...hot, verdict: ComparisonVerdict.NOT_JUDGED }],
    },
  };
  expect(judge(notJudged)).toMatchObject({ status: 'valid', score: 2, evaluation: { combined_score: 1 } });
  const timed = {
    shape: SHAPE,
    mode: TimingMode.HOT,
    latency: { samples: 50, p50Us: 10, p90Us: 11, p50LowUs: 9.9, p50HighUs: 10.1 },
  };
  const sdpa = [{ name: 'sdpa/flash', speedup: 7 }];
  const evaluated = (valid: boolean) =>
    evaluationOf(
      ended({ ...RIGHT, benchmarks: [{ ...timed, sdpa, valid, invalidReason: 'the device was throttled' }] }),
    );
  expect(evaluated(true)).toMatchObject({
    combined_score: 7,
    metrics: { median_us: 10, median_low_us: 9.9, median_high_us: 10.1, speedup_over_sdpa: 7 },
  });
  const invalid = evaluated(false);
  expect(invalid.combined_score).toBe(1);
  expect(Object.keys(invalid.metrics)).not.toContain('median_us');
  expect(invalid.text_feedback).toMatch(/^Right\. Not timed: the measurement is not valid, the device was throttled\./);
});

test('a candidate that the named plan rejects is not correct, unless the plan rejects only its speedup over the champion', () => {
  const gate = (metric: string, level = 'hard') => ({
    gateId: metric,
    title: metric,
    metric,
    level,
    verdict: Verdict.FAIL,
    detail: 'NOTES.md is missing',
  });
  const of = (plan: string, ...gates: ReturnType<typeof gate>[]) =>
    evaluationOf({ ...ended({ ...RIGHT, gates }), plan });
  expect(of('merge', gate('documentation_missing'))).toMatchObject({
    correct: false,
    text_feedback: expect.stringContaining(
      'Rejected by the gate "documentation_missing": NOTES.md is missing',
    ) as string,
  });
  expect(of('merge', gate('documentation_missing')).combined_score).toBeLessThan(SCORES.RIGHT_AT_LEAST);
  expect(of('merge', gate('documentation_missing', 'warn'), gate('speedup_vs_champion')).correct).toBe(true);
  expect(of('', gate('documentation_missing')).correct).toBe(true);
  const rejected = judgedTrial(identity, ended({ ...FASTER, gates: [gate('spill_bytes')] }), {
    base: { score: 1 },
    required: [],
    plan: 'merge',
  });
  expect(rejected.status).toBe('wrong');
});

test('scores rise from not built to wrong to correct, and a slow correct kernel beats every wrong one', () => {
  const score = (variant: Variant) => evaluationOf(ended(variant)).combined_score;
  const cases = [
    { shape: SHAPE, verdict: Verdict.PASS },
    { shape: SHAPE, verdict: Verdict.FAIL },
  ];
  const slow = {
    ...FASTER,
    comparison: { shapes: [{ mode: TimingMode.HOT, time: { ratio: 0.01, low: 0.01, high: 0.01 } }] },
  };
  const scores = [
    score({ build: { succeeded: false } }),
    score({ build: { succeeded: true } }),
    score({ build: { succeeded: true }, verify: { passedCases: 0, cases: [cases[1]!] } }),
    score({ build: { succeeded: true }, verify: { passedCases: 1, cases } }),
    score(slow),
    score(RIGHT),
    score(FASTER),
  ];
  expect(scores).toEqual([
    SCORES.NOT_BUILT,
    SCORES.BUILT,
    SCORES.RAN,
    0.25,
    SCORES.RIGHT_AT_LEAST,
    1,
    expect.closeTo(1.1) as number,
  ]);
  expect(scores.toSorted((a, b) => a - b)).toEqual(scores);
});

test('an evaluation has only finite numbers and GPU measurements', () => {
  const { metrics } = evaluationOf(ended({ ...FASTER, benchmarks: [{ ...FASTER.benchmarks[0], tflops: Infinity }] }));
  expect(metrics).toMatchObject({ speedup: expect.closeTo(1.1) as number, median_us: 10, registers: 64 });
  expect(Object.values(metrics).every((value) => Number.isFinite(value))).toBe(true);
});

test('an evaluation has the figures of the entries that the timed shapes launch, as the gates do', () => {
  const entry = (name: string, registersPerThread: number, shapes: string[]) => ({
    entry: name,
    registersPerThread,
    staticSmemBytes: 8 * registersPerThread,
    ctasPerSm: 512 / registersPerThread,
    shapes,
  });
  const registers = (...entries: ReturnType<typeof entry>[]) =>
    evaluationOf(ended({ ...FASTER, build: { succeeded: true, entries } })).metrics;
  expect(registers(entry('a', 64, ['1x1x64x64', '2x1x64x64']), entry('b', 128, ['2x1x64x64']))).toMatchObject({
    registers: 64,
    smem_bytes: 512,
    ctas_per_sm: 8,
  });
  expect(registers(entry('a', 64, []), entry('b', 128, []))).toMatchObject({ registers: 128, ctas_per_sm: 4 });
});

test('the cases as text include probes and drawn shapes, and say where the errors are', () => {
  const failed = {
    shape: SHAPE,
    verdict: Verdict.FAIL,
    maxAbsError: 3,
    seeds: 2,
    inputs: [
      { distribution: 'offset', verdict: Verdict.FAIL },
      { distribution: 'max_last', verdict: Verdict.PASS },
    ],
    errorMap: { rows: 2, columns: 3, blockRows: 32, blockColumns: 8, maxAbsError: [0, 0.001, 0, 2, NaN, 3] },
  };
  const variant = create(VariantResultSchema, {
    verify: {
      cases: [{ shape: SHAPE, verdict: Verdict.NOT_MEASURED, reason: 'it takes no such shape' }],
      probes: [failed],
      drawn: [{ shape: SHAPE, verdict: Verdict.PASS, maxAbsError: 1e-3, seeds: 5 }],
    },
  });
  expect(verifyText(variant).split('\n')).toEqual([
    '1x1x64x64 NOT_MEASURED: it takes no such shape',
    'probe 1x1x64x64 FAIL max |error| 3.00 over 2 seeds',
    '  wrong on: offset',
    '  largest |error| in 32 rows from 0: 0.0010, 32: NaN',
    '  largest |error| in 8 columns from 0: 2.0, 8: NaN, 16: 3.0',
    'drawn 1x1x64x64 PASS max |error| 0.00100 over 5 seeds',
  ]);
});

test('bounded() cuts foreign text to a number of bytes, between characters, and removes control characters', () => {
  expect(bounded('a\u001b[31mb\u0007\nc', 100)).not.toMatch(/[\u001b\u0007]/);
  const cut = bounded('é'.repeat(3000), 101);
  expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(101);
  expect(cut).toMatch(/^é+\n… cut$/);
});

const MANIFEST = `id: k
title: t
lesson: l
source: k.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
launches: [{ entry: k, grid: [1, 1, 1], block: [32, 1, 1], arguments: [Q, K, V, O, S, scale, causal] }]
`;
const BASE = { files: { 'kernel.yaml': MANIFEST, 'k.cu': 'one\ntwo\nthree\n' }, parameters: { A: 1 } };

describe('an answer', () => {
  const answer = (change: object) => candidateOf(BASE, { name: 'n', thought: 't', ...change }, 'k');

  test('adds files and parameters to the base, or applies a unified diff', () => {
    expect(answer({ parameters: { B: 2 }, files: { 'x.cuh': 'x' } })).toEqual({
      files: { ...BASE.files, 'x.cuh': 'x' },
      parameters: { A: 1, B: 2 },
    });
    const patch = '--- a/k.cu\n+++ b/k.cu\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n';
    expect(answer({ patch }).files['k.cu']).toBe('one\n2\nthree\n');
  });

  test.each<[string, object, RegExp]>([
    [
      'a patch that does not apply',
      { patch: '--- a/k.cu\n+++ b/k.cu\n@@ -1,1 +1,1 @@\n-seven\n+8\n' },
      /does not apply to k\.cu/,
    ],
    [
      'a patch of a file named like a property of every object',
      { patch: '--- a/toString\n+++ b/toString\n@@ -1,1 +1,1 @@\n-a\n+b\n' },
      /changes toString, which is not there/,
    ],
    [
      'a patch that creates a file named __proto__',
      { patch: '--- /dev/null\n+++ b/__proto__\n@@ -0,0 +1,1 @@\n+b\n' },
      /"__proto__": must be kernel.yaml or a .cu/,
    ],
    [
      'a patch of a file that does not exist',
      { patch: '--- a/z.cu\n+++ b/z.cu\n@@ -1,1 +1,1 @@\n-a\n+b\n' },
      /z\.cu, which is not there/,
    ],
    ['a patch that is not a diff', { patch: 'make it faster' }, /changes no file|not a unified diff/],
    ['a path out of the folder', { files: { '../../etc/x.cu': '' } }, /must be kernel\.yaml or a \.cu/],
    ['an absolute path', { files: { '/tmp/x.cu': '' } }, /must be kernel\.yaml or a \.cu/],
    ['a problem definition', { files: { 'problem/problem.yaml': '' } }, /problem\.yaml: must stay as it is/],
    ['a file that is not a source', { files: { 'run.sh': '' } }, /must be kernel\.yaml or a \.cu/],
    ['a changed id', { files: { 'kernel.yaml': MANIFEST.replace('id: k', 'id: other') } }, /id: must stay k, is other/],
    ['an invalid manifest', { files: { 'kernel.yaml': 'id: 7' } }, /kernel\.yaml/],
    ['too much source', { files: { 'k.cu': 'x'.repeat(101 * 1024) } }, /bytes, 102400 are the most/],
  ])('with %s is not a proposal', (_, change, text) => {
    expect(() => answer(change)).toThrow(NoProposal);
    expect(() => answer(change)).toThrow(text);
  });

  // --resume reads a stored answer again, so an answer that takes hours to apply would make the search unusable.
  test.each<[string, number, (line: number) => string]>([
    ['a line far beyond the end', 1, () => '@@ -999999999999,1 +1,1 @@\n-seven\n+8\n'],
    [
      'thousands of hunks that fit far from their lines',
      3_000,
      (hunk) => `@@ -${hunk % 2 ? 1 : 40_000},1 +1,1 @@\n x\n`,
    ],
    ['a hunk that nearly fits everywhere', 1, () => `@@ -1,20000 +1,20000 @@\n${' x\n'.repeat(19_999)} y\n`],
  ])('whose patch has %s is refused within seconds', (_, hunks, hunkAt) => {
    const base = { ...BASE, files: { ...BASE.files, 'k.cu': 'x\n'.repeat(40_000) } };
    const patch = `--- a/k.cu\n+++ b/k.cu\n${Array.from({ length: hunks }, (__, index) => hunkAt(index)).join('')}`;
    expect(patch.length).toBeLessThan(MAX_SOURCE_BYTES);
    expect(() => candidateOf(base, { name: 'n', thought: 't', patch }, 'k')).toThrow(
      /takes more than 1 s to apply to k\.cu/,
    );
  });

  test('may follow other output; other forms are not proposals', () => {
    const document = '{\n "name": "n",\n "thought": "t"\n}\n';
    expect(readAnswer(`thinking { hard }\n${document}`)).toEqual({ name: 'n', thought: 't' });
    expect(() => readAnswer('')).toThrow(/not a JSON document/);
    expect(() => readAnswer('{"name": "n"')).toThrow(/not a JSON document/);
    expect(() => readAnswer('{"name": "", "parameters": {"A": 1.5}}')).toThrow(/name: .*thought: .*parameters\.A: /);
  });
});

test("the published schema equals the program's schema", () => {
  const published = readFileSync(new URL('../../../../docs/schemas/proposer-1.json', import.meta.url), 'utf8');
  expect(JSON.parse(published)).toEqual(JSON.parse(JSON.stringify(protocolSchemas())));
});

describe('a proposer', () => {
  let folder: string;
  beforeAll(() => void (folder = mkdtempSync(path.join(tmpdir(), 'fa-'))));
  afterAll(() => rmSync(folder, { recursive: true }));
  const ask = (command: string, seconds = 10, environment: NodeJS.ProcessEnv = process.env) =>
    askProposer({ trial: 1 } as ProposalRequest, {
      command,
      seconds,
      logFile: path.join(folder, 'log'),
      environment,
      signal: new AbortController().signal,
    });

  test("does not get the token for fa-tui's runner", async () => {
    const environment = { ...process.env, FLASHCORE_TOKEN: 'secret', OTHER: 'passed on' };
    expect(await ask('echo "$FLASHCORE_TOKEN,$OTHER"', 10, environment)).toBe(',passed on\n');
  });

  test('the proposer gets the request on stdin, and its output is logged', async () => {
    expect(await ask('cat; echo thinking >&2')).toBe('{"trial":1}\n');
    expect(readFileSync(path.join(folder, 'log'), 'utf8').split('\n').toSorted()).toEqual([
      '',
      'thinking',
      '{"trial":1}',
    ]);
  });

  test.each<[string, string, RegExp]>([
    ['hangs', 'sleep 100', /did not answer within 0\.5 s and was killed/],
    ['leaves a child that hangs', 'sleep 100 & wait', /did not answer within 0\.5 s/],
    ['fails', 'echo no key; exit 7', /ended with status 7: no key/],
    [
      'says on stderr why it fails',
      'echo out; printf "Error: no\\033[31m key\\n\\n" >&2; exit 1',
      /ended with status 1: Error: no key$/,
    ],
    [
      'writes so much to stderr that only the end is shown',
      'yes | head -c 100000 >&2; echo last >&2; exit 1',
      /^.{20,560} y last$/,
    ],
    [
      'hangs after it wrote the reason to stderr',
      'echo waiting for a key >&2; sleep 100',
      /was killed; it said: waiting for a key$/,
    ],
    ['crashes', 'kill -SEGV $$', /was ended by SIGSEGV|status 139/],
    ['floods stdout', 'yes', /printed more than 1048576 bytes and was killed/],
  ])('that %s gives no proposal', async (_, command, text) => {
    await expect(ask(command, 0.5)).rejects.toThrow(text);
    await expect(ask(command, 0.5)).rejects.toThrow(NoProposal);
  });

  // Uses a path rather than a bare name, because the shell prints another error if a folder of PATH can't be read.
  test.each(['/no-such-program-here', '/etc/passwd --model x'])(
    'that the shell cannot start (%s) ends the search',
    async (command) => {
      await expect(ask(command)).rejects.toMatchObject({
        reason: 'INVALID_REQUEST',
        message: expect.stringContaining(command) as string,
      });
    },
  );
});

describe('examples/proposers/parameters.mjs', () => {
  const file = fileURLToPath(new URL('../../../../examples/proposers/parameters.mjs', import.meta.url));
  type Tried = { name: string; parents: number[]; parameters: Record<string, number> };
  const answer = (tried: readonly Tried[]) => {
    const request = {
      protocol: 'flashcore-proposer 1',
      seed: tried.length,
      base: { trial: 0, parameters: {}, files: { 'k.cu': 'constexpr int UNROLL = 4;  // evolve: 2, 4\n' } },
      task: {
        parameters: [
          { name: 'A', values: [0, 1], default: 0, about: 'a' },
          { name: 'B', values: [0, 1], default: 0, about: 'b' },
        ],
      },
      insights: { tried },
    };
    const { status, stdout, stderr } = spawnSync(process.execPath, [file], {
      input: JSON.stringify(request),
      encoding: 'utf8',
    });
    if (status !== 0) return stderr.trim();
    return JSON.parse(stdout) as { name: string; parameters: Record<string, number>; files?: Record<string, string> };
  };

  test('changes one parameter, then two at a time, tries each change once, then reports that everything was tried', () => {
    const tried: Tried[] = [];
    let last = '';
    for (let trial = 0; trial < 20 && last === ''; ++trial) {
      const made = answer(tried);
      if (typeof made === 'string') last = made;
      else tried.push({ name: made.name, parents: [0], parameters: made.parameters });
    }
    const names = tried.map(({ name }) => name);
    expect(names.slice(0, 3).toSorted()).toEqual(['A 0 -> 1', 'B 0 -> 1', 'UNROLL 4 -> 2']);
    expect(names.slice(3).toSorted()).toEqual([
      'A 0 -> 1, B 0 -> 1',
      'A 0 -> 1, UNROLL 4 -> 2',
      'B 0 -> 1, UNROLL 4 -> 2',
    ]);
    expect(last).toBe('every change of one or two parameters or constants of this base was tried');
  });
});

const trialOf = (trial: number, status: Trial['status'], score: number, thought = `t${trial}`): Trial => ({
  trial,
  status,
  operator: 'init',
  parents: trial === 0 ? [] : [0],
  name: `n${trial}`,
  thought,
  parameters: {},
  score,
  why: '',
});
const TRIALS = [
  trialOf(0, 'root', 1, ''),
  trialOf(1, 'accepted', 1.2),
  trialOf(2, 'wrong', 0),
  trialOf(3, 'valid', 1.19),
  trialOf(4, 'valid', 0.7),
];

describe('select()', () => {
  const options = { population: 5, seed: 3, islands: 1 };

  test('in the configurations free and insight gives the best accepted trial, and in insight also thoughts', () => {
    const free = select(5, TRIALS, { ...options, config: 'free' });
    expect([free.operator, free.parents.map(({ trial }) => trial), free.thoughts]).toEqual(['init', [1], []]);
    const { thoughts } = select(5, TRIALS, { ...options, config: 'insight' });
    expect(thoughts.toSorted()).toEqual(['t1', 't3', 't4']);
  });

  test('in the configuration full crosses and mutates correct trials, the better one first; parents depend only on seed and trials', () => {
    const full = { ...options, config: 'full' as const };
    expect(select(5, TRIALS, full)).toEqual(select(5, TRIALS, full));
    const chosen = Array.from({ length: 40 }, (_, seed) => select(4, TRIALS.slice(0, 4), { ...full, seed }));
    for (const { operator, parents } of chosen) {
      expect(parents).toHaveLength(operator === 'crossover' ? 2 : 1);
      expect(parents.every(({ status }) => status !== 'wrong')).toBe(true);
      expect(parents.map(({ score }) => score)).toEqual(parents.map(({ score }) => score).toSorted((a, b) => b - a));
    }
    expect(new Set(chosen.map(({ parents }) => parents.map(({ trial }) => trial).join())).size).toBeGreaterThan(1);
  });

  test('ranks by score, then by registers and shared memory', () => {
    expect(ranked(TRIALS).map(({ trial }) => trial)).toEqual([1, 3, 0, 4]);
    const cost = (trial: number, registers: number): Trial => ({
      ...trialOf(trial, 'valid', 1),
      evaluation: { ...evaluationOf(ended(RIGHT)), metrics: { registers, smem_bytes: 1 } },
    });
    expect(ranked([cost(1, 128), cost(2, 64), cost(3, 96)]).map(({ trial }) => trial)).toEqual([2, 3, 1]);
    expect(bestOf(TRIALS).trial).toBe(1);
  });

  test('chooses from the members of its own island', () => {
    // With two islands, trials 1 and 3 are on the first, and 2 and 4 on the second.
    const free = { ...options, islands: 2, config: 'free' as const };
    expect([5, 6].map((trial) => select(trial, TRIALS, free).parents[0]!.trial)).toEqual([1, 0]);
    const full = { ...free, config: 'full' as const };
    const parents = (trial: number) =>
      Array.from({ length: 40 }, (_, seed) => select(trial, TRIALS, { ...full, seed }).parents).flat();
    expect(new Set(parents(5).map(({ trial }) => trial))).toEqual(new Set([0, 1, 3]));
    expect(new Set(parents(6).map(({ trial }) => trial))).toEqual(new Set([0, 4]));
  });

  test('draws parents from every cell of the archive before it draws a second one from a cell', () => {
    const kind = (trial: number, score: number, metrics: Record<string, number>): Trial => ({
      ...trialOf(trial, trial === 0 ? 'root' : 'valid', score),
      evaluation: { ...evaluationOf(ended(RIGHT)), metrics },
    });
    const wide = { registers: 128, smem_bytes: 48 * 1024 };
    const small = { registers: 40, smem_bytes: 0 };
    const trials = [kind(0, 1, wide), kind(1, 1.3, wide), kind(2, 1.2, wide), kind(3, 0.9, small)];
    expect(elitesOf(trials).map((trial) => [trial.trial, cellOf(trial)])).toEqual([
      [1, 'up to 128 registers, up to 64 KiB of shared memory'],
      [3, 'up to 64 registers, no shared memory'],
    ]);
    const seeds = Array.from({ length: 40 }, (_, seed) => seed);
    const drawn = seeds.flatMap(
      (seed) => select(4, trials, { ...options, config: 'full', population: 2, seed }).parents,
    );
    expect(new Set(drawn.map(({ trial }) => trial))).toEqual(new Set([1, 3]));
  });
});

test('every five rounds the best trial of each island joins the next one, in a ring', () => {
  const right = (trial: number): Trial => trialOf(trial, 'valid', 1 + trial / 100);
  const trials = [TRIALS[0]!, ...Array.from({ length: 30 }, (_, index) => right(index + 1))];
  const guests = (count: number) =>
    islandsOf(trials.slice(0, count + 1), 3).map((members, index) =>
      members.flatMap(({ trial }) => (trial > 0 && islandOf(trial, 3) !== index + 1 ? [trial] : [])),
    );
  expect(guests(14)).toEqual([[], [], []]);
  expect(guests(15)).toEqual([[15], [13], [14]]);
  expect(guests(30)).toEqual([
    [15, 30],
    [13, 28],
    [14, 29],
  ]);
  expect(islandsOf(trials, 1)).toEqual([trials]);
  // The next trial of an island must not wait for another island's trial.
  expect([1, 3, 4, 16].map((trial) => knownBefore(trial, 3))).toEqual([1, 1, 2, 14]);
});

test('a stored search is unchanged when read back, keeps other processes out, and is reported with its tree', async () => {
  const home = mkdtempSync(path.join(tmpdir(), 'fa-'));
  const environment = { FLASHCORE_HOME: home };
  const plan: Omit<SearchPlan, 'version'> = {
    id: 'search-1',
    kernelId: 'k',
    kernel: 'k',
    proposer: 'cat',
    proposerSeconds: 1,
    config: 'free',
    trials: 4,
    population: 5,
    islands: 2,
    seed: 1,
    maxUsd: null,
    maxDeviceSeconds: null,
    options: {},
    root: BASE,
    notes: '',
  };
  const store = SearchStore.create(environment, plan);
  const trials = [...TRIALS.slice(0, 4), failedTrial({ ...identity, trial: 4, parents: [1] }, 'no-proposal', 'hung')];
  for (const trial of trials) store.write(trial.trial, 'trial.json', JSON.stringify(trial));
  const again = SearchStore.open(environment, 'search-1');
  expect([again.plan, again.trials(), again.candidate(2)]).toEqual([store.plan, trials, BASE]);
  expect(() => SearchStore.open(environment, 'none')).toThrow(/no search none/);
  expect(() => SearchStore.open(environment, '../x')).toThrow(/no search/);
  await store.locked(async () => {
    await expect(again.locked(() => Promise.resolve(1))).resolves.toBe(1); // The same process may lock again.
    return undefined;
  });
  const summary = summaryOf(store.plan, trials);
  expect(summary).toMatchObject({
    trials: 4,
    accepted: 1,
    valid: 2,
    validity_rate: 0.5,
    best: { trial: 1 },
    best_so_far: [1, 1.2, 1.2, 1.2, 1.2],
    cost_usd: null,
    tokens: null,
  });
  expect(searchLines(summary, { unicode: true }).slice(-6)).toEqual([
    'Lineage',
    '  0 root 1.000x n0',
    '  ├─ 1 accepted 1.200x n1',
    '  │  └─ 4 no-proposal n',
    '  ├─ 2 wrong n2',
    '  └─ 3 valid 1.190x n3',
  ]);
  rmSync(home, { recursive: true });
});

test('a report shows the ratio of the hot medians next to the score if the two differ', () => {
  const timed = (trial: Trial, us: number, score: number): Trial => ({
    ...trial,
    score,
    evaluation: { ...evaluationOf(ended(RIGHT)), metrics: { median_us: us } },
  });
  const [root, best] = [timed(TRIALS[0]!, 307, 1), timed(TRIALS[1]!, 20, 12.913)];
  const plan = { id: 's', kernelId: 'k', config: 'free', seed: 1, islands: 1 } as SearchPlan;
  const summary = summaryOf(plan, [root, best]);
  expect(summary.best).toMatchObject({ trial: 1, score: 12.913, median_ratio: 15.35 });
  expect(searchLines(summary, { unicode: true })).toContain(
    '  scores: ratios of the interleaved comparisons, multiplied from trial 0 on; by the hot medians of their own jobs trial 1 is 15.350x trial 0',
  );
  const unknown = summaryOf(plan, [TRIALS[0]!, best]);
  expect([unknown.best.median_ratio, searchLines(unknown, { unicode: true }).join()]).toEqual([
    null,
    expect.not.stringContaining('hot medians'),
  ]);
});

test('a judgement is reused only if the runner has the same cases, gates, engine and held-out shapes', () => {
  const side = { kernel: create(KernelReferenceSchema), variant: create(VariantSchema) };
  const settings = {
    deviceId: '',
    verify: create(VerifySettingsSchema),
    benchmark: create(BenchmarkSettingsSchema),
    profile: create(ProfileSettingsSchema),
    plan: '',
    maxQueueSeconds: 1,
    maxRunSeconds: 1,
  };
  const keyBy = (judgingDigest: string) =>
    contentKey(
      { client: { host: create(HostSchema), judgingDigest } },
      { candidate: side, champion: undefined, settings },
    );
  expect([keyBy('one') === keyBy('one'), keyBy('one') === keyBy('another')]).toEqual([true, false]);
});

test('uuidOf() gives the same UUID for the same text', () => {
  expect(uuidOf('a')).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect([uuidOf('a') === uuidOf('a'), uuidOf('a') === uuidOf('b')]).toEqual([true, false]);
});
