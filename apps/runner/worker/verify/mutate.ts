/** Applies a mutant to a case, its inputs or its outputs. */
import { FlashcoreError } from '@flashcore/shared/contract';
import {
  DTYPES,
  elementsOfTensor,
  ENTRY,
  evaluate,
  problemCase,
  MAX_EXTENT,
  type CaseValues,
  type Expression,
  type MutantChange,
  type NumberFormat,
  type Problem,
  type ProblemCase,
  type ProblemMutant,
  type TensorAct,
  type TensorDtype,
  type TensorExtent,
} from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import {
  emptyBits,
  filledElement,
  tensorNamed,
  tensorOf,
  valueReader,
  type TensorBits,
  type TensorsByName,
} from '../driver/tensor-bits.ts';

export interface Asked {
  kind: ProblemCase;
  inputs: TensorsByName;
}

type Setting = Extract<MutantChange, { kind: 'set' }>;
type TensorChange = Exclude<TensorAct, { kind: 'entries' | 'ignored' }>;

/**
 * The case and inputs that the oracle gets instead; undefined if the mutant changes neither. Errors: INVALID_MANIFEST.
 */
export function mutatedQuestion(problem: Problem, { name, change }: ProblemMutant, asked: Asked): Asked | undefined {
  const { kind, inputs } = asked;
  if (change.kind === 'set') return otherValues(problem, { name, change, asked });
  const tensor = kind.tensors.find((each) => each.name === change.tensor);
  // The tensor may belong to another case of the problem.
  if (tensor?.direction !== 'in') return undefined;
  if (change.kind === 'ignored') return { kind: { ...kind, operands: without(tensor.name, kind.operands) }, inputs };
  const bits = entryOf(inputs, tensor.name)!;
  const after =
    change.kind === 'entries'
      ? otherEntries(bits, change.value, {
          problem,
          name,
          values: kind.values,
          ...boundsOf(tensor),
        })
      : changed(bits, { tensor, change, poison: 0, values: kind.values });
  return { kind, inputs: { ...inputs, ...lengthsFor(tensor, { inputs, lists: after }), [tensor.name]: after } };
}

const boundsOf = ({ draw }: TensorExtent): { least: number; most: number } =>
  draw?.kind === 'selected' ? { least: -1, most: draw.keys - 1 } : { least: 0, most: MAX_EXTENT };

/**
 * Makes each sequence long enough for the keys that its lists now name, because a kernel would read them even past the
 * sequence's end.
 */
function lengthsFor(
  { draw, dims }: TensorExtent,
  { inputs, lists }: { inputs: TensorsByName; lists: TensorBits },
): TensorsByName {
  if (draw?.kind !== 'selected' || draw.of === undefined) return {};
  const lengths = entryOf(inputs, draw.of)!.slice();
  const inner = elementsOfTensor({ dims: dims.slice(draw.owner! + 1) });
  for (const [index, key] of lists.entries()) {
    const sequence = Math.floor(index / inner) % lengths.length;
    lengths[sequence] = Math.max(lengths[sequence]!, (key | 0) + 1);
  }
  return { [draw.of]: lengths };
}

/** Applies an output's mutant to the outputs. `poison` is the pattern of elements that were never written. */
export function mutatedOutputs(
  { change }: ProblemMutant,
  kind: ProblemCase,
  { outputs, poison }: { outputs: TensorsByName; poison: number },
): TensorsByName {
  const tensor = change.kind === 'set' ? undefined : kind.tensors.find((each) => each.name === change.tensor);
  if (change.kind === 'set' || change.kind === 'entries' || change.kind === 'ignored' || tensor?.direction !== 'out')
    return outputs;
  return {
    ...outputs,
    [tensor.name]: changed(entryOf(outputs, tensor.name)!, { tensor, change, poison, values: kind.values }),
  };
}

const without = (tensor: string, { operands, tables, ...rest }: ProblemCase['operands']): ProblemCase['operands'] => ({
  ...rest,
  operands: Object.fromEntries(Object.entries(operands).filter(([, operand]) => operand.tensor !== tensor)),
  tables: Object.fromEntries(Object.entries(tables).filter(([, table]) => table !== tensor)),
});

interface Set {
  name: string;
  change: Setting;
  asked: Asked;
}

function otherValues(problem: Problem, { name, change, asked: { kind, inputs } }: Set): Asked | undefined {
  const values: CaseValues = {
    ...kind.values,
    ...Object.fromEntries(change.values.map(({ name: set, value }) => [set, evaluate(value, kind.values)])),
  };
  if (change.values.every(({ name: set }) => entryOf(values, set) === entryOf(kind.values, set))) return undefined;
  for (const { name: axis } of problem.axes) {
    const [extent, most] = [entryOf(values, axis)!, entryOf(kind.values, axis)!];
    if (!(extent >= 1 && extent <= MOST_REPEATS * most && Number.isInteger(extent)))
      throw new FlashcoreError(
        'INVALID_MANIFEST',
        { problem: problem.id, key: `mutants.${name}.set.${axis}` },
        `problems/${problem.id}/problem.yaml: mutants.${name}.set.${axis}: must be an integer of 1 to ${MOST_REPEATS * most}, ${MOST_REPEATS} times the case's, got ${extent}: bound it with min() and max()`,
      );
  }
  const optional = new Set(kind.tensors.filter((tensor) => tensor.optional).map((tensor) => tensor.name));
  const mutated = problemCase(problem, values, kind.dtype, optional);
  const absent = mutated.tensors.find((tensor) => !kind.tensors.some((each) => each.name === tensor.name));
  if (absent)
    throw new FlashcoreError(
      'INVALID_MANIFEST',
      { problem: problem.id, key: `mutants.${name}.set` },
      `problems/${problem.id}/problem.yaml: mutants.${name}.set: must not give a case ${absent.name}, which it lacks: leave cases without ${absent.name} as they are`,
    );
  const larger = mutated.tensors.find(
    (tensor) => elementsOfTensor(tensor) > MOST_REPEATS * elementsOfTensor(tensorNamed(kind, tensor.name)),
  );
  if (larger)
    throw new FlashcoreError(
      'INVALID_MANIFEST',
      { problem: problem.id, key: `mutants.${name}.set` },
      `problems/${problem.id}/problem.yaml: mutants.${name}.set: must leave ${larger.name} at most ${MOST_REPEATS} times the case's elements, got ${elementsOfTensor(larger)}: bound the axes with min()`,
    );
  const cut = mutated.tensors
    .filter(({ direction }) => direction === 'in')
    .map(
      (tensor) =>
        [tensor.name, resized(entryOf(inputs, tensor.name)!, tensorNamed(kind, tensor.name), tensor)] as const,
    );
  return { kind: mutated, inputs: Object.fromEntries(cut) };
}

/** The most heads of Q that share a head of K in the largest models. */
const MOST_REPEATS = 128;

/** A tensor with other extents: each dimension keeps its first indices, or repeats them where it is longer. */
function resized(bits: TensorBits, whole: TensorExtent, wanted: TensorExtent): TensorBits {
  if (whole.dims.join() === wanted.dims.join()) return bits;
  const out = emptyBits(elementsOfTensor(wanted), wanted.dtype);
  for (let to = 0; to < out.length; to += 1) {
    let [rest, stride, from] = [to, 1, 0];
    for (let dim = wanted.dims.length - 1; dim >= 0; dim -= 1) {
      from += ((rest % wanted.dims[dim]!) % whole.dims[dim]!) * stride;
      rest = Math.floor(rest / wanted.dims[dim]!);
      stride *= whole.dims[dim]!;
    }
    out[to] = bits[from]!;
  }
  return out;
}

interface TableOf {
  problem: Problem;
  name: string;
  values: CaseValues;
  /** Bounds of an entry; in lists of keys, -1 and the last key. */
  least: number;
  most: number;
}

function otherEntries(
  bits: TensorBits,
  value: Expression,
  { problem, name, values, least, most }: TableOf,
): TensorBits {
  const out = bits.slice();
  for (const [index, word] of bits.entries()) {
    const entry = word | 0;
    const other = evaluate(value, { ...values, [ENTRY]: entry });
    if (!Number.isInteger(other) || other < least || other > most)
      throw new FlashcoreError(
        'INVALID_MANIFEST',
        { problem: problem.id, key: `mutants.${name}.entries` },
        `problems/${problem.id}/problem.yaml: mutants.${name}.entries: must be an integer of ${least} to ${most}, got ${other} of the entry ${entry}: bound it with min() and max()`,
      );
    out[index] = other;
  }
  return out;
}

interface Changed {
  tensor: TensorExtent;
  change: TensorChange;
  poison: number;
  values: CaseValues;
}

function changed(bits: TensorBits, { tensor, change, poison, values }: Changed): TensorBits {
  const dtype = tensor.dtype as TensorDtype;
  const valueAt = valueReader(bits, dtype);
  const each = (value: (now: number) => number): TensorBits =>
    tensorOf(
      Float32Array.from({ length: bits.length }, (_, index) => value(valueAt(index))),
      dtype,
    );
  switch (change.kind) {
    case 'round':
      return each((now) => rounded(now, DTYPES[change.to].format));
    case 'flush':
      return each((now) => (Math.abs(now) < 2 ** DTYPES[dtype].format.least ? 0 : now));
    case 'clamp':
      return each((now) => Math.max(-change.value, Math.min(change.value, now)));
    case 'times': {
      const factor = evaluate(change.value, values);
      return each((now) => now * factor);
    }
    case 'constant':
      return each(() => change.value);
    case 'shift':
    case 'last':
      return alongDimension(bits, tensor.dims, change);
    case 'unwritten': {
      const count = change.part === 'row' ? tensor.dims.at(-1)! : 1;
      return bits.slice().fill(filledElement(poison, dtype), bits.length - count);
    }
  }
}

function alongDimension(
  bits: TensorBits,
  dims: readonly number[],
  { kind, dim }: Extract<TensorAct, { dim: number }>,
): TensorBits {
  const extent = dims[dim]!;
  const inner = dims.slice(dim + 1).reduce((product, each) => product * each, 1);
  const out = bits.slice();
  for (let start = 0; start < bits.length; start += extent * inner) {
    const last = start + (extent - 1) * inner;
    if (kind === 'last') out.fill(0, last, last + inner);
    else {
      out.copyWithin(start, start + inner, start + extent * inner);
      out.set(bits.subarray(start, start + inner), last);
    }
  }
  return out;
}

/**
 * Rounds to the nearest number of a format, ties to even. Larger numbers become the format's largest, as in satfinite
 * conversions.
 */
export function rounded(value: number, { mantissa, least, largest }: NumberFormat): number {
  if (value === 0 || !Number.isFinite(value)) return value;
  const step = 2 ** (Math.max(Math.floor(Math.log2(Math.abs(value))), least) - mantissa);
  const steps = value / step;
  const below = Math.floor(steps);
  const up = steps - below > 0.5 || (steps - below === 0.5 && below % 2 !== 0);
  return Math.max(-largest, Math.min(largest, (below + (up ? 1 : 0)) * step));
}
