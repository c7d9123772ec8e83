/**
 * Tests the symmetries of a problem: after a change of the inputs, the reference must give its former answers, changed
 * alike. The judge of timed launches relies on that, and would call a correct kernel wrong.
 */
import {
  evaluate,
  formatShape,
  isSmall,
  problemCase,
  rangeOf,
  symmetriesOfCase,
  tensorBytes,
  valuesOf,
  type Cases,
  type ElementDtype,
  type Problem,
  type ProblemCase,
  type ProblemSymmetry,
  type TensorDtype,
  type TensorExtent,
} from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { Answers, Reference } from '../driver/reference.ts';
import {
  outputsOf,
  tensorOf,
  valueReader,
  type OutputExtent,
  type TensorBits,
  type TensorsByName,
} from '../driver/tensor-bits.ts';
import type { CheckedSymmetry, CheckProblemJob } from '../messages/verifying.ts';
import { drawInputs, NORMAL } from './inputs.ts';
import { answersOf } from './judgement.ts';
import { ReferenceFailed } from './own-reference.ts';
import { CounterRandom } from './random.ts';

interface CheckOptions extends Pick<CheckProblemJob, 'dtype' | 'seed' | 'ownReference'> {
  reference: Reference;
  /** Called before each case. */
  onCase?: ((text: string) => void) | undefined;
}

/**
 * How far apart two answers in fp64 may be, as a share of the element or of the output's root mean square: sums have
 * another order after a permutation, and a reference may compute in fp32.
 */
const MOST_DIFFERENCE = 1e-6;
/** The stream of the random changes; inputs use lower numbers. */
const SYMMETRY_STREAM = 0x2000;

/**
 * Tests each symmetry by itself, on the smallest parity case or probe of each form that it changes. Symmetries that
 * change no case of this dtype are left out. Errors: ReferenceFailed for unchanged inputs.
 */
export async function checkSymmetries(
  problem: Problem,
  cases: Cases,
  options: CheckOptions,
): Promise<CheckedSymmetry[]> {
  const all = [...cases.sets.parity, ...cases.probes.shapes].map((shape) => new SymmetricCase(problem, shape, options));
  const checked: CheckedSymmetry[] = [];
  for (const symmetry of problem.symmetries) {
    const tried = smallestOfEachForm(all.filter((each) => each.canShow(symmetry)));
    const found = { name: nameOf(symmetry), place: symmetry.place, cases: tried.map(({ name }) => name) };
    if (tried.length === 0 && isOfOtherDtype(symmetry, all)) continue;
    checked.push({ ...found, fault: await firstFault(tried, symmetry) });
  }
  return checked;
}

/** Whether the symmetry would act on a case if the tensors had another dtype: integers are not doubled. */
const isOfOtherDtype = (symmetry: ProblemSymmetry, all: readonly SymmetricCase[]): boolean =>
  symmetry.act === 'double' && all.every(({ symmetries }) => !symmetries.includes(symmetry));

async function firstFault(
  cases: readonly SymmetricCase[],
  symmetry: ProblemSymmetry,
): Promise<CheckedSymmetry['fault']> {
  for (const each of cases) {
    const fault = await each.faultOf(symmetry);
    if (fault) return fault;
  }
  return undefined;
}

/** Cases of a form differ only in extents, so only the smallest one is checked. */
function smallestOfEachForm(cases: readonly SymmetricCase[]): SymmetricCase[] {
  const smallest = new Map<string, SymmetricCase>();
  for (const each of cases.toSorted((a, b) => a.bytes - b.bytes))
    if (!smallest.has(each.form)) smallest.set(each.form, each);
  return [...smallest.values()];
}

/** The symmetry as problem.yaml has it, with the tensors that it acts on. */
const nameOf = ({ act, axis, dims }: ProblemSymmetry): string =>
  `{ ${act}: ${axis}, of: [${Object.keys(dims).join(', ')}] }`;

/** A case with the inputs that timed launches have, and their answers. */
class SymmetricCase {
  readonly name: string;
  /** Equal for cases with the same tensors and attributes, in which the same axes have their defaults. */
  readonly form: string;
  readonly bytes: number;
  /** Those that hold for the case. */
  readonly symmetries: readonly ProblemSymmetry[];
  readonly #kind: ProblemCase;
  readonly #options: CheckOptions;
  #unchanged: Promise<{ inputs: TensorsByName; answers: Answers }> | undefined;

  constructor(problem: Problem, shape: Cases['sets']['parity'][number], options: CheckOptions) {
    const optional = new Set(problem.tensors.filter((tensor) => tensor.optional).map((tensor) => tensor.name));
    const kind = problemCase(problem, valuesOf(shape), options.dtype, optional);
    this.name = formatShape(shape);
    this.form = formOf(problem, kind);
    this.bytes = tensorBytes(kind.tensors);
    this.symmetries = symmetriesOfCase(problem, kind);
    this.#kind = kind;
    this.#options = options;
  }

  /** Whether the symmetry holds for the case, and changes an input of it. */
  canShow(symmetry: ProblemSymmetry): boolean {
    const extent = entryOf(this.#kind.values, symmetry.axis)!;
    const isInput = ({ name, direction }: TensorExtent): boolean =>
      direction === 'in' && Object.hasOwn(symmetry.dims, name);
    return this.symmetries.includes(symmetry) && extent > 1 && this.#kind.tensors.some(isInput);
  }

  /** The first element that breaks the symmetry; undefined if it holds. */
  async faultOf(symmetry: ProblemSymmetry): Promise<CheckedSymmetry['fault']> {
    this.#options.onCase?.(`symmetries ${this.name}`);
    const { inputs, answers } = await (this.#unchanged ??= this.#computeUnchanged());
    const drawn = this.#drawn(symmetry);
    const changes = (tensor: TensorExtent): Change => changeOf(tensor, drawn);
    const changed = Object.fromEntries(
      this.#kind.tensors
        .filter(({ direction }) => direction === 'in')
        .map((tensor) => [tensor.name, changedBits(entryOf(inputs, tensor.name)!, tensor.dtype, changes(tensor))]),
    );
    const found = await this.#answersTo(changed).catch((error: unknown) => {
      if (error instanceof ReferenceFailed) return error.message;
      throw error;
    });
    if (typeof found === 'string') return { case: this.name, said: found };
    for (const output of outputsOf(this.#kind)) {
      const element = firstDifference(output, {
        want: changedValues(answers.get(output.name)!.want, changes(output)),
        got: found.get(output.name)!.want,
      });
      if (element) return { case: this.name, output: output.name, ...element };
    }
    return undefined;
  }

  async #computeUnchanged(): Promise<{ inputs: TensorsByName; answers: Answers }> {
    const { seed, reference } = this.#options;
    const inputs = drawInputs(this.#kind, { seed, rule: NORMAL, evenLengths: true }, reference);
    return { inputs, answers: await this.#answersTo(inputs) };
  }

  #answersTo(inputs: TensorsByName): Promise<Answers> {
    const { reference, ownReference: own } = this.#options;
    return answersOf(reference, this.#kind, { inputs, own });
  }

  #drawn(symmetry: ProblemSymmetry): DrawnSymmetry {
    const random = new CounterRandom(this.#options.seed, SYMMETRY_STREAM);
    return { dims: symmetry.dims, ...drawnAct(symmetry, entryOf(this.#kind.values, symmetry.axis)!, random) };
  }
}

function formOf({ attributes, defaults }: Problem, { values, tensors }: ProblemCase): string {
  const given = attributes.filter(({ value }) => value === undefined).map(({ name }) => entryOf(values, name));
  const usual = defaults.map((axis) => entryOf(values, axis.name) === evaluate(axis.default, values));
  return JSON.stringify([given, usual, tensors.map(({ name }) => name)]);
}

interface DrawnSymmetry extends Pick<ProblemSymmetry, 'dims'> {
  /** Along the axis: the index that each index is made from, and its factor. The same draw acts on all tensors. */
  from: readonly number[];
  factors: readonly number[];
}

/** Random, but never without effect: some indices change. Flips and doublings leave half of the indices as they are. */
function drawnAct(
  { act }: Pick<ProblemSymmetry, 'act'>,
  extent: number,
  random: CounterRandom,
): Pick<DrawnSymmetry, 'from' | 'factors'> {
  const inOrder = Array.from({ length: extent }, (_, index) => index);
  const shuffled = inOrder.slice();
  for (let left = extent - 1; left > 0; left -= 1) {
    const other = random.below(left + 1);
    [shuffled[left], shuffled[other]] = [shuffled[other]!, shuffled[left]!];
  }
  const isUnchanged = shuffled.every((from, index) => from === index);
  if (act === 'permute') return { from: isUnchanged ? shuffled.toReversed() : shuffled, factors: inOrder.map(() => 1) };
  const factor = act === 'flip' ? -1 : 2;
  return { from: inOrder, factors: shuffled.map((place) => (place < Math.ceil(extent / 2) ? factor : 1)) };
}

/** For each element of a tensor, the element that it is made from, and its factor. */
interface Change {
  from: Uint32Array;
  factors: Float64Array;
}

function changeOf({ name, dims }: TensorExtent, symmetry: DrawnSymmetry): Change {
  const along = entryOf(symmetry.dims, name) ?? [];
  let [from, factors] = [Uint32Array.of(0), Float64Array.of(1)];
  for (const [dim, extent] of dims.entries()) {
    const isChanged = along.includes(dim);
    const [outer, outerFactors] = [from, factors];
    from = new Uint32Array(outer.length * extent);
    factors = new Float64Array(outer.length * extent);
    for (let index = 0; index < extent; index += 1) {
      const source = isChanged ? symmetry.from[index]! : index;
      const factor = isChanged ? symmetry.factors[index]! : 1;
      for (let each = 0; each < outer.length; each += 1) {
        from[each * extent + index] = outer[each]! * extent + source;
        factors[each * extent + index] = outerFactors[each]! * factor;
      }
    }
  }
  return { from, factors };
}

/** Marks rows of int8 that belong to no sequence; it is never drawn, because its negative is no int8. */
const INT8_MARK = -128;

function changedBits(bits: TensorBits, dtype: ElementDtype, { from, factors }: Change): TensorBits {
  const moved = bits.map((_, to) => bits[from[to]!]!);
  if (dtype === 'int32' || factors.every((factor) => factor === 1)) return moved;
  const valueAt = valueReader(moved, dtype);
  const isMark = (value: number): boolean => dtype === 'int8' && value === INT8_MARK;
  const values = Float32Array.from(factors, (factor, index) => {
    const value = valueAt(index);
    return isMark(value) ? value : value * factor;
  });
  return tensorOf(values, dtype);
}

const changedValues = (values: Float64Array, { from, factors }: Change): Float64Array =>
  values.map((_, to) => values[from[to]!]! * factors[to]!);

type Difference = { index: number[]; want: number; got: number };

function firstDifference(
  { dims, dtype }: OutputExtent,
  { want, got }: { want: Float64Array; got: Float64Array },
): Difference | undefined {
  const stored = storedAs(dtype);
  const squares = want.reduce((sum, value) => (Number.isFinite(value) ? sum + value * value : sum), 0);
  const usual = Math.sqrt(squares / Math.max(1, want.length));
  for (const [at, wanted] of want.entries()) {
    const [a, b] = [stored(wanted), stored(got[at]!)];
    if (a === b || (Number.isNaN(a) && Number.isNaN(b))) continue;
    if (Math.abs(a - b) <= MOST_DIFFERENCE * Math.max(Math.abs(a), usual)) continue;
    return { index: indexOf(at, dims), want: a, got: b };
  }
  return undefined;
}

/** Outputs of 8 bits saturate, in timed launches after the symmetries. */
function storedAs(dtype: TensorDtype): (value: number) => number {
  if (!isSmall(dtype)) return (value) => value;
  const [least, most] = rangeOf(dtype);
  return (value) => Math.max(least, Math.min(most, value));
}

function indexOf(at: number, dims: readonly number[]): number[] {
  let rest = at;
  return dims
    .toReversed()
    .map((extent) => {
      const index = rest % extent;
      rest = Math.floor(rest / extent);
      return index;
    })
    .toReversed();
}
