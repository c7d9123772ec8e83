/** Backward passes in a kernel's arithmetic on every distribution of the problem, judged as in a verification. */
import {
  compareOutputs,
  drawInputs,
  judgeOutputs,
  outputsOf,
  roundingLimitOf,
  tensorOf,
  valuesOfBits,
  type TensorsByName,
} from '@flashcore/runner/testing';
import {
  casesSource,
  installedProblem,
  outputTolerances,
  parseCases,
  problemCase,
  toleranceProfile,
  type Distribution,
  type ProblemCase,
  type TensorDtype,
} from '@flashcore/shared/kernels';
import { ALL_TESTS } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { compiledReference } from '../support/reference.ts';

const reference = await compiledReference();
const problem = installedProblem('attention_backward');
const source = casesSource(problem);
const cases = parseCases(source.text, source.path, problem);
const RULES = [...Object.values(cases.distributions), ...cases.probes.distributions];
const POISON = 0xffda;
const LIMIT_MS = 600_000;

interface Arithmetic {
  /** How P and dS are rounded before the last three products. */
  weight: (value: number) => number;
  score: (value: number) => number;
  subtractsDelta: boolean;
}

/** Rounds to this many significant bits, to nearest, and ties away from zero. */
function toBits(bits: number): (value: number) => number {
  const word = new Uint32Array(1);
  const value = new Float32Array(word.buffer);
  const dropped = 24 - bits;
  return (number) => {
    value[0] = number;
    word[0] = ((word[0]! + 2 ** (dropped - 1)) & -(2 ** dropped)) >>> 0;
    return value[0];
  };
}

/** Without the numbers that are not normal in fp32. */
const flushed = (value: number): number => (Math.abs(value) < 2 ** -126 ? 0 : value);
const toHalf = (value: number): number => new Float16Array([value])[0]!;
const { fround } = Math;

const KEPT: Arithmetic = { weight: fround, score: fround, subtractsDelta: true };
const ROUNDED = {
  fp16: { weight: toHalf, score: toHalf, subtractsDelta: true },
  bf16: { weight: toBits(8), score: toBits(8), subtractsDelta: true },
  fp32: { weight: toBits(11), score: toBits(11), subtractsDelta: true }, // tf32
} satisfies Readonly<Partial<Record<TensorDtype, Arithmetic>>>;
type Dtype = keyof typeof ROUNDED;

/** The gradients of a kernel that adds up in fp32. */
function gradients(of: ProblemCase, inputs: TensorsByName, { weight, score, subtractsDelta }: Arithmetic) {
  const { H, Hkv, S, Skv, D } = of.values as Record<'H' | 'Hkv' | 'S' | 'Skv' | 'D', number>;
  const scale = fround(of.values['scale']!);
  const values = (name: string) => valuesOfBits(inputs[name]!, of.dtype);
  const [Q, K, V, O, dO] = [values('Q'), values('K'), values('V'), values('O'), values('dO')];
  const LSE = valuesOfBits(inputs['LSE']!, 'fp32');
  const dot = (a: Float32Array, row: number, b: Float32Array, column: number): number => {
    let sum = 0;
    for (let d = 0; d < D; d += 1) sum = fround(sum + a[row * D + d]! * b[column * D + d]!);
    return sum;
  };
  const [dQ, dK, dV] = [new Float32Array(Q.length), new Float32Array(K.length), new Float32Array(V.length)];
  for (let row = 0; row < H * S; row += 1) {
    const delta = subtractsDelta ? dot(dO, row, O, row) : 0;
    for (let key = 0; key < (of.values['causal'] ? (row % S) + Skv - S + 1 : Skv); key += 1) {
      const column = Math.floor(Math.floor(row / S) / (H / Hkv)) * Skv + key;
      const p = flushed(fround(Math.exp(fround(fround(dot(Q, row, K, column) * scale) - LSE[row]!))));
      const ofScore = score(fround(p * fround(dot(dO, row, V, column) - delta)));
      for (let d = 0; d < D; d += 1) {
        dQ[row * D + d]! += ofScore * K[column * D + d]!;
        dK[column * D + d]! += ofScore * Q[row * D + d]!;
        dV[column * D + d]! += weight(p) * dO[row * D + d]!;
      }
    }
  }
  const stored = (sums: Float32Array<ArrayBuffer>, factor: number) =>
    tensorOf(
      sums.map((sum) => sum * factor),
      of.dtype,
    );
  return { dQ: stored(dQ, scale), dK: stored(dK, scale), dV: stored(dV, 1) };
}

interface Drawn {
  rule: Distribution;
  seed: string;
  causal: 0 | 2;
}

/** The judge's answer about gradients, with the tolerance `parity`. */
function judged(dtype: Dtype, { rule, seed, causal }: Drawn, arithmetic: Arithmetic) {
  const of = problemCase(problem, { B: 1, H: 2, Hkv: 1, S: 18, Skv: 21, D: 64, causal }, dtype);
  const inputs = drawInputs(of, { seed, rule }, reference);
  const answers = reference.answers(inputs, of);
  const { atol: absolute, rtol: relative } = toleranceProfile(cases, 'parity', dtype);
  const limits = {
    tolerance: { absolute, relative },
    ownTolerances: outputTolerances(problem, cases, dtype),
    judgeRounding: true,
  };
  const outputs = outputsOf(of);
  const got = gradients(of, inputs, arithmetic);
  const comparisons = compareOutputs(reference, got, { outputs, answers, limits, poison: POISON });
  const roundingLimit = roundingLimitOf(undefined, { dtype, accumulate: 'fp32' });
  const found = judgeOutputs(reference, got, { outputs, answers, comparisons, roundingLimit, limits });
  return {
    beyondTolerance: found.some(({ comparison }) => comparison.mismatches > 0),
    beyondRounding: found.some((output) => output.beyondRounding),
    vanished: found.some(({ trivialNorm }) => trivialNorm),
    ratio: Math.max(...found.map(({ rounding }) => rounding!.ratio)),
  };
}

const SEEDS = Array.from({ length: ALL_TESTS ? 20 : 3 }, (_, seed) => (seed + 1).toString(16));

test.each(['fp16', 'bf16', 'fp32'] as const)(
  'a backward pass in %s that keeps P and dS in fp32, and one that rounds them, are right on every distribution',
  { timeout: LIMIT_MS },
  (dtype) => {
    const wrong = RULES.flatMap((rule) =>
      SEEDS.flatMap((seed, index) =>
        [KEPT, ROUNDED[dtype]].flatMap((arithmetic, rounds) => {
          const causal = index % 2 === 0 ? 0 : 2;
          const found = judged(dtype, { rule, seed, causal }, arithmetic);
          const isWrong = found.beyondTolerance || found.beyondRounding || found.vanished;
          return isWrong ? [{ rule: rule.name, seed, rounds, ...found }] : [];
        }),
      ),
    );
    expect(wrong).toEqual([]);
  },
);

const normal = (seed: string): Drawn => ({ rule: cases.distributions['normal']!, seed, causal: 2 });

test.each([
  ['P in bf16', { ...ROUNDED.fp16, weight: toBits(8) }],
  ['dS in bf16', { ...ROUNDED.fp16, score: toBits(8) }],
])('the error of a backward pass in fp16 with %s exceeds what rounding explains, even within tolerance', (_, how) => {
  const found = SEEDS.map((seed) => judged('fp16', normal(seed), how));
  expect(found.every(({ beyondRounding }) => beyondRounding)).toBe(true);
  expect(found.some(({ beyondTolerance }) => !beyondTolerance)).toBe(true);
});

test.each([
  ['dS in e4m3', { ...ROUNDED.fp16, score: toBits(4) }],
  ['P in e4m3', { ...ROUNDED.fp16, weight: toBits(4) }],
  ['no delta', { ...ROUNDED.fp16, subtractsDelta: false }],
])('the error of a backward pass in fp16 with %s exceeds what rounding explains', (_, how) => {
  const found = SEEDS.map((seed) => judged('fp16', normal(seed), how));
  expect(found.every(({ beyondRounding }) => beyondRounding)).toBe(true);
});
