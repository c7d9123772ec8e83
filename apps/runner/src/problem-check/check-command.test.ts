import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  casesSource,
  installedProblem,
  parseCases,
  parseExpression,
  parseProblem,
  shapeOf,
  type Problem,
  type ProblemMutant,
} from '@flashcore/shared/kernels';
import { edited, inFull } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadReference } from '../../worker/driver/reference.ts';
import type { ProblemCheck } from '../../worker/messages/verifying.ts';
import { checkProblem } from '../../worker/verify/problem-check.ts';
import { checkSymmetries } from '../../worker/verify/symmetry-check.ts';
import { BuildTools } from '../build/build-tools.ts';
import { TEST_HOST } from '../testing/test-host.ts';
import { checkOne, matrixLines, refusals } from './check-command.ts';

const repositoryRoot = fileURLToPath(new URL('../../../../', import.meta.url));
const MINUTES_MS = 600_000;
let folder: string;

beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), 'flashcore-check-'))));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

// The other problems take minutes.
test.each(inFull(['attention', 'rmsnorm', 'softmax', 'gemm'], () => false))(
  'the cases of %s find all of its mutants',
  { timeout: MINUTES_MS },
  async (id) => {
    const check = await checkOne(
      id,
      { dtype: 'fp16', tolerance: 'parity', data: folder },
      { repositoryRoot, environment: process.env },
    );
    expect(check.mutants.length).toBeGreaterThan(8);
    expect(refusals(check)).toEqual([]);
  },
);

const CASES = `
tolerances: { parity: { atol: 1.0e-3, rtol: 1.0e-3 }, strict: { atol: 1.0e-3, rtol: 1.0e-3 }, wide: { atol: 1, rtol: 1 } }
defaults: { set: parity, tolerance: parity, seeds: 1, distribution: normal }
distributions: { normal: { q: normal, k: normal, v: normal, about: normal } }
sets:
  parity: [{ B: 2, H: 2, S: 33, D: 32 }]
  canonical: [{ B: 2, H: 2, S: 33, D: 32 }]
  emulated: [{ B: 2, H: 2, S: 33, D: 32 }]
`;

const buildTools = (): BuildTools =>
  new BuildTools({
    repositoryRoot,
    dataDirectory: folder,
    ...TEST_HOST,
  });

/** Attention with one mutant on one case. */
async function checked(mutant: ProblemMutant['change'], tolerance = 'parity') {
  const tools = buildTools();
  const problem: Problem = {
    ...installedProblem('attention'),
    mutants: [{ name: 'mistake', about: 'a mistake', change: mutant }],
  };
  return checkProblem(problem, parseCases(CASES, 'cases.yaml', problem), {
    reference: loadReference(await tools.libraries.reference({ signal: new AbortController().signal })),
    dtype: 'fp16',
    tolerance,
    seed: 'c0ffee',
    judgeRounding: tolerance === 'parity',
  });
}

test('a mutant that no case finds, or that changes nothing, is refused', { timeout: MINUTES_MS }, async () => {
  const missed = await checked({ kind: 'times', tensor: 'K', value: parseExpression('1.0005') });
  expect(refusals(missed)).toEqual(['mistake survives: add a case or distribution to cases.yaml that finds it']);
  const same = await checked({ kind: 'clamp', tensor: 'K', value: 448 });
  expect(refusals(same)).toEqual([
    'mistake changes nothing on any case: change or remove it, or add a case that it changes',
  ]);
  expect(matrixLines(same)).toEqual(['', 'a normal', 'parity   case       a', 'mistake  none']);
  const found = await checked({ kind: 'unwritten', tensor: 'O', part: 'element' });
  expect(refusals(found)).toEqual([]);
  expect(matrixLines(found)).toEqual(['', 'a normal', 'parity   case       a', 'mistake  2x2x33x32  x']);
});

const LENGTHS = [1, 2, 4, 8, 16, 32, 64, 128].map((each) => each * 1024);

// The short form has the mutants of smaller problems in this file.
test.each(inFull(['bf16', 'fp16'] as const, () => false))(
  'decode without its last page is wrong at every length from 1k to 131k: %s',
  { timeout: MINUTES_MS },
  async (dtype) => {
    const installed = installedProblem('attention_decode_paged');
    const mutants = installed.mutants.filter(({ name }) => name === 'last_page_left_out');
    const { text, path } = casesSource(installed);
    const cases = parseCases(text, path, installed);
    const shapes = [16, 64].flatMap((page) =>
      LENGTHS.map((Skv) => shapeOf({ B: 1, H: 8, Hkv: 1, S: 1, Skv, page, D: 64 })),
    );
    const reference = loadReference(await buildTools().libraries.reference({ signal: new AbortController().signal }));
    const judged = (judgeRounding: boolean): Promise<ProblemCheck> =>
      checkProblem(
        { ...installed, mutants, symmetries: [] },
        {
          ...cases,
          distributions: { normal: cases.distributions['normal']! },
          sets: { ...cases.sets, parity: shapes },
          probes: { ...cases.probes, shapes: [] },
        },
        { reference, dtype, tolerance: 'parity', seed: 'c0ffee', judgeRounding },
      );
    const [all] = (await judged(true)).groups;
    expect(all).toMatchObject({ wronged: [], cells: [shapes.map(() => ['found'])] });
    const [byTolerance] = (await judged(false)).groups;
    // A mean of this many values is close to zero. The tolerance alone would accept zeros, or a mean of half the keys.
    expect(byTolerance!.cells[0]!.at(-1)).toEqual(['missed']);
  },
);

test('a mutant that has no effect in the dtype is left out, and listed by name', { timeout: MINUTES_MS }, async () => {
  expect(await checked({ kind: 'clamp', tensor: 'K', value: 1e300 })).toMatchObject({
    mutants: [],
    leftOut: ['mistake'],
  });
});

test('a mutant is judged with the tolerance that is asked for', { timeout: MINUTES_MS }, async () => {
  const change = { kind: 'times', tensor: 'O', value: parseExpression('1.05') } as const;
  expect(refusals(await checked(change))).toEqual([]);
  expect(refusals(await checked(change, 'wide'))).toEqual([expect.stringContaining('mistake survives')]);
});

test('a refused mutant is named with its file and line', () => {
  const text = readFileSync(join(repositoryRoot, 'problems/softmax/problem.yaml'), 'utf8');
  const { mutants } = parseProblem(text, 'problems/softmax/problem.yaml');
  const [{ name, about, place }] = mutants as [ProblemMutant];
  const line = text.split('\n').findIndex((each) => each.startsWith(`  ${name}:`)) + 1;
  const group = { name: 'parity' as const, cases: ['a'], distributions: ['normal'], wronged: [] };
  const check = {
    problem: 'softmax',
    dtype: 'fp16' as const,
    tolerance: 'parity',
    mutants: [{ name, about, place }],
    symmetries: [],
    leftOut: [],
  };
  expect(refusals({ ...check, groups: [{ ...group, cells: [[['missed']]] }] })).toEqual([
    expect.stringContaining(`problems/softmax/problem.yaml:${line}: mutants.${name} survives`),
  ]);
});

const ATTENTION_FILE = 'problems/attention/problem.yaml';

/** The reasons to refuse attention with one symmetry replaced by another. */
async function refusalsWith(was: string, is: string): Promise<string[]> {
  const problem = parseProblem(
    edited(readFileSync(join(repositoryRoot, ATTENTION_FILE), 'utf8'), was, is),
    ATTENTION_FILE,
  );
  const library = await buildTools().libraries.reference({ signal: new AbortController().signal });
  const symmetries = await checkSymmetries(problem, parseCases(CASES, 'cases.yaml', problem), {
    reference: loadReference(library),
    dtype: 'fp16',
    seed: 'c0ffee',
  });
  return refusals({ ...FINE, symmetries });
}

/** A check that refuses nothing. */
const FINE: ProblemCheck = {
  problem: 'p',
  dtype: 'fp16',
  tolerance: 'parity',
  mutants: [{ name: 'zeros', about: '' }],
  groups: [{ name: 'parity', cases: ['a'], distributions: ['normal'], cells: [[['found']]], wronged: [] }],
  symmetries: [],
  leftOut: [],
};

test.each([
  ['{ permute: D, of: [Q, K] }', '{ permute: D, of: [Q] }'],
  ['{ permute: B }', '{ permute: H, of: [Q, O] }'],
  ['{ flip: D, of: [Q, K] }', '{ flip: D, of: [K] }'],
  ['{ double: Dv, of: [V, O] }', '{ double: D, of: [Q, K] }'],
])(
  'attention with %s replaced by the false %s is refused with the first element that differs',
  { timeout: MINUTES_MS },
  async (was, is) => {
    const line = readFileSync(join(repositoryRoot, ATTENTION_FILE), 'utf8').split('\n').indexOf(`  - ${was}`) + 1;
    const [refused, ...more] = await refusalsWith(was, is);
    expect(more).toEqual([]);
    expect(refused).toContain(`${ATTENTION_FILE}:${line}: symmetries[`);
    expect(refused).toContain(`] ${is} does not hold on 2x2x33x32: `);
    expect(refused).toMatch(
      / computes O\[0, 0, \d+, \d+\] = -?[\d.]+, and the symmetry promises -?[\d.]+; leave it out, or correct/,
    );
  },
);

test('a symmetry that changes no case is refused', { timeout: MINUTES_MS }, async () => {
  expect(await refusalsWith('{ permute: B }', '{ flip: B, of: [V, O], when: "causal == 7" }')).toEqual([
    expect.stringMatching(
      /symmetries\[0\] \{ flip: B, of: \[V, O\] \} changes no parity case and no probe.*add a case/,
    ),
  ]);
});

test('a symmetry whose inputs the reference cannot take is refused with what the reference said', () => {
  const symmetry = { name: '{ permute: T, of: [A] }', place: 'p.yaml:3: symmetries[0]', cases: ['a'] };
  const fault = { case: 'a', said: 'index 7 of T must be below 4' };
  expect(refusals({ ...FINE, symmetries: [{ ...symmetry, fault }] })).toEqual([
    'p.yaml:3: symmetries[0] { permute: T, of: [A] } does not hold on a: index 7 of T must be below 4; leave the symmetry out, or correct its `of` or `when`',
  ]);
});

test('a problem whose tolerance rejects a correct answer is refused', () => {
  const wronged = [{ case: 'a', distribution: 'normal' }];
  expect(refusals({ ...FINE, groups: [{ ...FINE.groups[0]!, wronged }] })).toEqual([
    'a right answer is called wrong on a, normal: widen the tolerance `parity` in cases.yaml',
  ]);
});

test('a distribution on which the right answer is beyond the dtype is refused', { timeout: MINUTES_MS }, async () => {
  const problem = { ...installedProblem('attention_backward'), mutants: [], symmetries: [] };
  // Gradients of scores are sums of 32 products of V and dO.
  const cases = CASES.replace('v: normal, about', 'v: normal, value_scale: 8000, about').replace(
    'wide:',
    'key_gradient:',
  );
  const found = await checkProblem(problem, parseCases(cases, 'cases.yaml', problem), {
    reference: loadReference(await buildTools().libraries.reference({ signal: new AbortController().signal })),
    ...{ dtype: 'fp16', tolerance: 'parity', seed: 'c0ffee', judgeRounding: true },
  });
  const { wronged } = found.groups[0]!;
  expect(refusals({ ...FINE, groups: [{ ...FINE.groups[0]!, wronged }] })).toEqual([
    "the right dQ exceeds fp16's range on 2x2x33x32, normal: draw smaller inputs there (value_scale in cases.yaml), or leave the distribution out",
  ]);
});
