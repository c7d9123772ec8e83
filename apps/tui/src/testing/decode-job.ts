/** The sample job with cases of a problem other than attention, and problems for view 7. */
import { create } from '@bufbuild/protobuf';
import { ShapeSchema, type JobEvent, type Shape } from '@flashcore/shared/contract';
import { formatShape, parseProblem, parseShape } from '@flashcore/shared/kernels';
import type { ListedProblem } from '../present/sections/problem.ts';
import { PARITY_SHAPES, sampleEvents } from './sample-job.ts';

const decodeCase = (text: string, name = ''): Shape => ({ ...parseShape(text), name });

const DECODE_CASES: readonly Shape[] = [
  decodeCase('B=7,H=4,Hkv=4,Skv=200,D=64'),
  decodeCase('B=8,H=32,Hkv=8,Skv=257,D=128', 'Llama-3 8B small'),
  decodeCase('B=3,H=64,Hkv=8,Skv=129,D=128', 'Llama-3 70B small'),
  decodeCase('B=4,H=64,Hkv=8,Skv=300,D=64', 'gpt-oss small'),
  decodeCase('B=6,H=16,Hkv=8,Skv=100,D=256', 'Gemma-2 9B small'),
  decodeCase('B=1,H=8,Hkv=1,Skv=1024,D=64'),
  decodeCase('B=64,H=32,Hkv=4,Skv=16384,D=128', 'Qwen3-30B 16k'),
];

/** The sample job with cases of decoding in the place of attention's. */
export const decodeEvents = (): JobEvent[] => sampleEvents().map((event) => withDecodeCases(event));

function withDecodeCases<Value>(value: Value): Value {
  if (Array.isArray(value)) return value.map(withDecodeCases) as Value;
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value;
  if ('$typeName' in value && value.$typeName === ShapeSchema.typeName) {
    const text = formatShape(value as unknown as Shape);
    const place = PARITY_SHAPES.findIndex((shape) => formatShape(shape) === text);
    return create(ShapeSchema, DECODE_CASES[place] ?? DECODE_CASES[0]!) as Value;
  }
  const entries = Object.entries(value).map(([key, each]: [string, unknown]) => [key, withDecodeCases(each)]);
  return Object.assign(
    Object.create(Object.getPrototypeOf(value) as object | null),
    Object.fromEntries(entries),
  ) as Value;
}

const NORM = `
id: my_norm
title: "Y = X / sqrt(mean(X^2) + eps) * W for each row"
axes:
  rows: { draw: count, about: "rows of X: tokens" }
  N: { about: "columns: hidden dimension" }
  groups: { default: "1", about: "groups of columns with a mean each" }
attributes:
  gate: { draw: [0, 1], about: "1: the output is multiplied by G, with a long explanation that wraps on small screens" }
  eps: { value: 1e-5, about: "added to the mean square" }
require: [{ require: "N % groups == 0", because: "each group has as many columns" }]
tensors:
  X: { in: [rows, N], dtype: [fp16, bf16] }
  W: { in: [N], dtype: fp32, role: k }
  G: { in: [rows, N], dtype: same_as(X), when: gate }
  Y: { out: [rows, N], dtype: same_as(X) }
mutants:
  zeros: { tensor: Y, constant: 0, about: "nothing is computed" }
  gate_forgotten: { set: { gate: 0 }, about: "G is not multiplied with" }
reference: { op: own }
work: { flops: "4 * rows * N" }
`;

export const LISTED_PROBLEMS: readonly ListedProblem[] = [
  { id: 'broken', error: 'problems/broken/problem.yaml:3: axes: must be a mapping', sets: {}, kernels: [] },
  {
    id: 'my_norm',
    problem: parseProblem(NORM, 'problem.yaml'),
    sets: {
      parity: [
        decodeCase('rows=7,N=333'),
        decodeCase('rows=33,N=4096', 'Llama-3 8B 33 tokens'),
        decodeCase('rows=3,N=8192,gate=1', 'Llama-3 70B 3 tokens'),
      ],
      canonical: [decodeCase('rows=4096,N=4096', 'Llama-3 8B 4k tokens')],
    },
    kernels: [{ id: 'my_norm_v1', folder: '/home/user/kernels/my_norm_v1' }],
  },
];
