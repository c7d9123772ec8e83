import {
  installedProblem,
  parseExpression,
  problemCase,
  valuesOf,
  parseShape,
  type ProblemMutant,
} from '@flashcore/shared/kernels';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { BuildTools } from '../../src/build/build-tools.ts';
import { ArtifactStore } from '../../src/store/artifacts.ts';
import { TEST_HOST } from '../../src/testing/test-host.ts';
import { loadReference, type Reference } from '../driver/reference.ts';
import { tensorOf, valuesOfBits, type TensorsByName } from '../driver/tensor-bits.ts';
import { NORMAL, drawInputs } from './inputs.ts';
import { answersOf, type JudgementLimits } from './judgement.ts';
import { factorsOf, mistakeOf, mutantsLike, type Mistake, type WrongRun } from './likeness.ts';
import { mutatedQuestion } from './mutate.ts';

const ATTENTION = installedProblem('attention');
const KIND = problemCase(ATTENTION, valuesOf(parseShape('1x2x64x64c')), 'fp16');
const LIMITS: JudgementLimits = {
  tolerance: { absolute: 2e-3, relative: 2e-2 },
  ownTolerances: {},
  judgeRounding: false,
};
let reference: Reference;
let inputs: TensorsByName;

const repositoryRoot = fileURLToPath(new URL('../../../..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'fc-likeness-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

beforeAll(async () => {
  const tools = new BuildTools({
    repositoryRoot,
    dataDirectory: folder,
    kernelsFolder: join(repositoryRoot, 'kernels'),
    artifacts: new ArtifactStore(join(folder, 'artifacts')),
    ...TEST_HOST,
  });
  reference = loadReference(await tools.libraries.reference({ signal: new AbortController().signal }));
  inputs = drawInputs(KIND, { seed: '5eed', rule: NORMAL }, reference);
}, 300_000);

const mutantNamed = (wanted: string): ProblemMutant => ATTENTION.mutants.find(({ name }) => name === wanted)!;

/** The names of the mutants whose outputs mutantsLike() takes for this one. */
const like = async (O: TensorsByName[string]): Promise<string[]> =>
  (await mutantsLike(ATTENTION, await likeRun(O), reference)).map(({ name }) => name);

async function likeRun(O: TensorsByName[string]): Promise<WrongRun> {
  const answers = await answersOf(reference, KIND, { inputs, own: undefined });
  return { kind: KIND, inputs, outputs: { O }, answers, limits: LIMITS, own: undefined };
}

/** The output of a kernel with this mistake, with each element rounded differently from the reference. */
async function mistaken(mutant: ProblemMutant): Promise<TensorsByName[string]> {
  const asked = mutatedQuestion(ATTENTION, mutant, { kind: KIND, inputs }) ?? { kind: KIND, inputs };
  const { want } = (await answersOf(reference, asked.kind, { inputs: asked.inputs, own: undefined })).get('O')!;
  return tensorOf(
    Float32Array.from(want, (value, index) => value * (1 + ((index % 3) - 1) * 2 ** -11)),
    'fp16',
  );
}

test.each(['scale_forgotten', 'mask_ignored', 'keys_of_next_head', 'values_shifted'])(
  'an output with the mistake %s is like that mutant',
  async (name) => {
    expect(await like(await mistaken(mutantNamed(name)))).toEqual([name]);
  },
);

test('logits without log2(e) are recognized, although the problem lists no such mutant', async () => {
  const values = [{ name: 'scale', value: parseExpression('scale * 0.6931471805599453') }];
  const run = likeRun(await mistaken({ name: '', about: '', change: { kind: 'set', values } }));
  expect(await mutantsLike(ATTENTION, await run, reference)).toEqual([
    { name: '', about: 'exp2 takes logits that were not multiplied by log2(e)' },
  ]);
});

test('an output of zeros is like the mutant that computes nothing', async () => {
  expect(await like(tensorOf(new Float32Array(2 * 64 * 64), 'fp16'))).toEqual(['zeros']);
});

test('an output that is wrong in another way is like no mutant', async () => {
  const right = (await answersOf(reference, KIND, { inputs, own: undefined })).get('O')!.want;
  expect(
    await like(
      tensorOf(
        Float32Array.from(right, (value) => 2 * value),
        'fp16',
      ),
    ),
  ).toEqual([]);
});

const [LENGTH, WIDTH] = [256, 64];

/** A case of several heads whose outputs together are too large for the mutants, with a mistake in one of its heads. */
async function wrongInHead(shape: string, mistake: (head: HeadOf) => Float64Array): Promise<WrongRun> {
  const kind = problemCase(ATTENTION, valuesOf(parseShape(shape)), 'fp16');
  const drawn = drawInputs(kind, { seed: '5eed', rule: NORMAL }, reference);
  const answers = await answersOf(reference, kind, { inputs: drawn, own: undefined });
  const O = Float32Array.from(answers.get('O')!.want);
  const [heads, ofKeys] = [kind.values['H']!, kind.values['Hkv']!];
  const matrixOf = (name: string, head: number): Float32Array =>
    valuesOfBits(drawn[name]!, 'fp16').subarray(head * LENGTH * WIDTH, (head + 1) * LENGTH * WIDTH);
  // The last batch and the last head but one.
  const head = O.length / (LENGTH * WIDTH) - 2;
  const ofHead = Math.floor(head / heads) * ofKeys + Math.floor(((head % heads) * ofKeys) / heads);
  O.set(mistake({ q: matrixOf('Q', head), k: matrixOf('K', ofHead), v: matrixOf('V', ofHead) }), head * LENGTH * WIDTH);
  return { kind, inputs: drawn, outputs: { O: tensorOf(O, 'fp16') }, answers, limits: LIMITS, own: undefined };
}

interface HeadOf {
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly v: Float32Array;
}

/** A head by three loops; `weight` changes the exponentials. */
function attend({ q, k, v }: HeadOf, { scale, weight }: { scale: number; weight: (key: number) => number }) {
  const out = new Float64Array(LENGTH * WIDTH);
  for (let row = 0; row < LENGTH; row += 1) {
    let total = 0;
    for (let key = 0; key < LENGTH; key += 1) {
      let logit = 0;
      for (let d = 0; d < WIDTH; d += 1) logit += q[row * WIDTH + d]! * k[key * WIDTH + d]!;
      const each = weight(key) * Math.exp(logit * scale);
      total += each;
      for (let d = 0; d < WIDTH; d += 1) out[row * WIDTH + d]! += each * v[key * WIDTH + d]!;
    }
    for (let d = 0; d < WIDTH; d += 1) out[row * WIDTH + d]! /= total;
  }
  return out;
}

test('a mistake in one head of a case that is too large for the mutants is found in that head', async () => {
  const shape = '2x4x256x64,Hkv=2';
  const counted = await wrongInHead(shape, (head) =>
    attend(head, { scale: 1 / 8, weight: (key) => (key === 189 ? 1.25 : 1) }),
  );
  const { likeMutants, wrongKeys } = (await mistakeOf(ATTENTION, counted, reference)) as Mistake;
  const { keys, change } = wrongKeys!;
  expect({ likeMutants, keys, kind: change!.kind, factor: 'factor' in change! && change.factor.toFixed(2) }).toEqual({
    likeMutants: [],
    ...{ keys: [189], kind: 'weights', factor: '1.25' },
  });
  const unscaled = await wrongInHead(shape, (head) => attend(head, { scale: 1, weight: () => 1 }));
  expect(await mistakeOf(ATTENTION, unscaled, reference)).toEqual({
    likeMutants: [{ name: 'scale_forgotten', about: 'logits are not divided by sqrt(D)' }],
    wrongKeys: undefined,
  });
});

test('a case whose heads are too long is reported as too large to explain', async () => {
  const kind = problemCase(ATTENTION, valuesOf(parseShape('1x1x8192x64')), 'fp16');
  const run = { kind, inputs: {}, outputs: {}, answers: new Map(), limits: LIMITS, own: undefined };
  expect(await mistakeOf(ATTENTION, run, reference)).toBe('too large');
});

const output = {
  name: 'O',
  direction: 'out' as const,
  role: 'v' as const,
  dims: [1, 1, 4, 16],
  dtype: 'fp32' as const,
};
const WANT = Float64Array.from({ length: 64 }, (_, index) => Math.sin(index + 1));

test.each<[string, (value: number, row: number) => number, ReturnType<typeof factorsOf>]>([
  ['one factor', (value) => value * 0.5, { least: 0.5, most: 0.5 }],
  ['a factor in each row', (value, row) => value * 2 ** row, { least: 2, most: 8 }],
  ['another sum', (value, row) => value + row, undefined],
  ['no error', (value) => value, undefined],
  ['zeros', () => 0, undefined],
])('an output of %s', (_, change, wanted) => {
  const got = tensorOf(
    Float32Array.from(WANT, (value, index) => change(value, Math.floor(index / 16))),
    'fp32',
  );
  const factors = factorsOf(got, WANT, output);
  expect(factors && { least: Number(factors.least.toFixed(3)), most: Number(factors.most.toFixed(3)) }).toEqual(wanted);
});
