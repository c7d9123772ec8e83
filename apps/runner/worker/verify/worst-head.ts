/** A head of an attention case as a case of its own, so that looking for a mistake costs as little as a small case. */
import { elementsOfTensor, problemCase, type Operand, type Problem, type ProblemCase } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { Answers, RoundedAnswer } from '../driver/reference.ts';
import {
  emptyBits,
  matricesOf,
  outputOf,
  outputsOf,
  tensorNamed,
  valueReader,
  type TensorsByName,
} from '../driver/tensor-bits.ts';

/** A case with its tensors. */
interface Computed {
  readonly kind: ProblemCase;
  readonly inputs: TensorsByName;
  readonly outputs: TensorsByName;
  readonly answers: Answers;
}

/** An index of each axis that a slice keeps one of. */
interface Head {
  readonly b: number;
  /** By the name of the operand: heads of Q may share one of K and V. */
  readonly headOf: (operand: string) => number;
}

/**
 * The batch and head with the largest error in the first output. Undefined for problems that do not lay out their heads
 * as attention does.
 */
export function worstHeadOf<Case extends Computed>(problem: Problem, whole: Case): Case | undefined {
  const { kind, inputs, outputs, answers } = whole;
  const kept = oneHead(problem, kind);
  if (kept === undefined) return undefined;
  const output = outputOf(kind);
  const [, heads = 1] = output.dims;
  const worst = worstMatrix(whole);
  const { h: keyHeads = 1 } = extentsOf(kind, kind.operands.operands.k!);
  const ofQuery = worst % heads;
  const at: Head = {
    b: Math.floor(worst / heads),
    headOf: (operand) => (operand === 'k' || operand === 'v' ? Math.floor((ofQuery * keyHeads) / heads) : ofQuery),
  };
  const cut = <Values extends SliceableValues>(name: string, values: Values): Values =>
    sliced(values, { dims: tensorNamed(kind, name).dims, first: firstOf(kind, name, at) });
  const all = (tensors: TensorsByName): TensorsByName =>
    Object.fromEntries(Object.entries(tensors).map(([name, bits]) => [name, cut(name, bits)]));
  const answersOfHead = outputsOf(kind).map(({ name }): [string, RoundedAnswer] => {
    const { want, rounding, ...rest } = answers.get(name)!;
    return [name, { ...rest, want: cut(name, want), ...(rounding && { rounding: cut(name, rounding) }) }];
  });
  return { ...whole, kind: kept, inputs: all(inputs), outputs: all(outputs), answers: new Map(answersOfHead) };
}

const AXES = 'b h s d';

/** The case with one batch and one head; undefined if its tensors are not those of plainly stored attention. */
function oneHead(problem: Problem, kind: ProblemCase): ProblemCase | undefined {
  const { operation, operands } = kind;
  if (operation !== 'attention' || Object.keys(operands.tables).length > 0) return undefined;
  const { q, k, v, o } = operands.operands;
  if ([q, k, v, o].some((operand) => operand?.axes.join(' ') !== AXES || operand.more !== undefined)) return undefined;
  if (outputOf(kind).name !== o!.tensor) return undefined;
  if (!kind.tensors.every(({ name }) => headsComeFirst(kind, name))) return undefined;
  const axes = [q!, k!, v!].flatMap(({ tensor }) =>
    problem.tensors.find(({ name }) => name === tensor)!.dims.slice(0, 2),
  );
  const values = { ...kind.values, ...Object.fromEntries(axes.map(({ text }) => [text, 1])) };
  const optional = new Set(kind.tensors.filter((tensor) => tensor.optional).map(({ name }) => name));
  const kept = problemCase(problem, values, kind.dtype, optional);
  const isOne = kept.tensors.every((tensor) => {
    const { dims } = tensorNamed(kind, tensor.name);
    return elementsOfTensor(tensor) === elementsOfTensor({ dims: dims.slice(leadingOf(kind, tensor.name)) });
  });
  return isOne ? kept : undefined;
}

const namedOperand = ({ operands }: ProblemCase, tensor: string): [string, Operand] | undefined =>
  Object.entries(operands.operands).find(([, operand]) => operand.tensor === tensor);

const isLeading = (axis: string): boolean => axis === 'b' || axis === 'h';

/** Whether the tensor is an operand whose batches and heads are its outermost dimensions. */
function headsComeFirst(kind: ProblemCase, tensor: string): boolean {
  const axes = namedOperand(kind, tensor)?.[1].axes;
  return axes !== undefined && !axes.slice(leadingOf(kind, tensor)).some(isLeading);
}

/** Number of outermost dimensions that are batches and heads. */
const leadingOf = (kind: ProblemCase, tensor: string): number =>
  (namedOperand(kind, tensor)?.[1].axes ?? []).filter(isLeading).length;

const extentsOf = (kind: ProblemCase, { tensor, axes }: Operand): Partial<Record<string, number>> =>
  Object.fromEntries(axes.map((axis, index) => [axis, tensorNamed(kind, tensor).dims[index]!]));

/** The indices of a tensor's leading dimensions. */
function firstOf(kind: ProblemCase, tensor: string, { b, headOf }: Head): number[] {
  const [name, { axes }] = namedOperand(kind, tensor)!;
  const { dims } = tensorNamed(kind, tensor);
  return axes
    .slice(0, leadingOf(kind, tensor))
    .map((axis, dim) => Math.min(dims[dim]! - 1, axis === 'b' ? b : headOf(name)));
}

type SliceableValues = TensorsByName[string] | Float64Array | Float32Array;

/** The elements at the first indices. */
function sliced<Values extends SliceableValues>(
  values: Values,
  { dims, first }: { dims: readonly number[]; first: readonly number[] },
): Values {
  const length = dims.slice(first.length).reduce((product, extent) => product * extent, 1);
  const place = first.reduce((sum, index, dim) => sum * dims[dim]! + index, 0);
  return values.slice(place * length, (place + 1) * length) as Values;
}

/** The matrix of the first output with the largest error. */
function worstMatrix({ kind, outputs, answers }: Computed): number {
  const output = outputOf(kind);
  const { heads, rows, columns } = matricesOf(output);
  const { want } = answers.get(output.name)!;
  const valueAt = valueReader(entryOf(outputs, output.name) ?? emptyBits(0, output.dtype), output.dtype);
  let [worst, most] = [0, -Infinity];
  for (let head = 0; head < heads; head += 1) {
    let sum = 0;
    for (let index = head * rows * columns; index < (head + 1) * rows * columns; index += 1)
      sum += (valueAt(index) - want[index]!) ** 2;
    if (sum > most) [worst, most] = [head, sum];
  }
  return worst;
}
