/**
 * Finds the few keys that a wrong attention kernel treats wrongly, and what it makes of them. A row of the output is
 * the sum of the values, each times its key's weight. If few weights are wrong, few values explain the error of every
 * row.
 */
import type { OperandName, ProblemCase } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { Reference } from '../driver/reference.ts';
import {
  matricesOf,
  outputOf,
  tensorNamed,
  tensorOf,
  valuesOfBits,
  type TensorsByName,
} from '../driver/tensor-bits.ts';
import type { WrongKeys } from '../messages/verifying.ts';

/** The rows with the largest errors are enough. */
const MOST_ROWS = 64;
/** A row with less than this share of the largest squared error is right. */
const LEAST_SHARE_OF_ERROR = 1e-3;
/** With more keys, the search takes seconds. */
const MOST_KEYS = 4_096;
/**
 * Keys per column of a row. Any row is the sum of as many values as it has columns, and 0.6 of them explain 99 % of an
 * error in all keys.
 */
const MOST_SHARE_OF_COLUMNS = 0.4;
/** An error that shrinks to this share of its square is explained. */
const EXPLAINED_SHARE = 1e-2;
/** A row is explained if no more than this share of its squared error is left, */
const MOST_LEFT_OF_ROW = 0.1;
/** and this share of the rows may be unexplained. */
const MOST_UNEXPLAINED = 0.1;
/** Largest relative rounding error of an element, for 16-bit dtypes and tf32. */
const ROUNDING: Partial<Record<string, number>> = { bf16: 2 ** -8 };
const USUAL_ROUNDING = 2 ** -11;
/** A key with less than this share of the largest part in the error is there by chance. */
const LEAST_SHARE_OF_LARGEST = 3e-3;

interface WrongOutput {
  readonly kind: ProblemCase;
  readonly inputs: TensorsByName;
  readonly outputs: TensorsByName;
  /** The right values of the first output. */
  readonly want: Float64Array;
}

/** Undefined if the errors have another cause, or if the problem stores keys in another way than attention does. */
export function wrongKeysOf(reference: Reference, wrong: WrongOutput): WrongKeys | undefined {
  const { kind, inputs, outputs, want } = wrong;
  if (!isPlainlyStored(kind)) return undefined;
  const output = outputOf(kind);
  const { heads, rows, columns } = matricesOf(output);
  const valueTensor = tensorNamed(kind, kind.operands.operands.v!.tensor);
  const { heads: valueHeads, rows: keys } = matricesOf(valueTensor);
  if (keys > MOST_KEYS) return undefined;
  const got = valuesOfBits(entryOf(outputs, output.name)!, output.dtype);
  const rowError = (row: number): number => squares(got, want, { from: row * columns, to: (row + 1) * columns });
  const headError = (head: number): number => sumOf(range(rows), (row) => rowError(head * rows + row));
  const head = largest(range(heads), headError);
  const wrongRows = range(rows)
    .map((row) => ({ row, error: rowError(head * rows + row) }))
    .toSorted((a, b) => b.error - a.error)
    .filter(({ error }, _, [worst]) => error > LEAST_SHARE_OF_ERROR * worst!.error)
    .slice(0, MOST_ROWS);
  const allValues = valuesOfBits(entryOf(inputs, valueTensor.name)!, output.dtype);
  const valueHead = Math.floor((head * valueHeads) / heads);
  const values = range(keys).map((key) => slice(allValues, (valueHead * keys + key) * columns, columns));
  const explained = explain(
    wrongRows.map(({ row }) => ({
      got: slice(got, (head * rows + row) * columns, columns),
      want: slice(want, (head * rows + row) * columns, columns),
    })),
    values,
    entryOf(ROUNDING, output.dtype) ?? USUAL_ROUNDING,
  );
  if (explained === undefined || explained.keys.length > keys / 2 || !belongsToKeys(explained, rows)) return undefined;
  const asked = { kind, inputs, head, rows: wrongRows.map(({ row }) => row), keys: explained.keys };
  const weights = weightsOf(reference, asked);
  return {
    keys: explained.keys.toSorted((a, b) => a - b),
    ofKeys: keys,
    change: changeOf(explained, weights, keys),
  };
}

const FORWARD: readonly OperandName[] = ['q', 'k', 'v', 'o', 'lse', 'sinks', 'alibi_slopes', 'bias'];
const AXES = 'b h s d';

/** Whether V and O are [B, H, S, D], each key has a row of its own, and V has O's dtype and columns. */
function isPlainlyStored(kind: ProblemCase): boolean {
  const { operation, operands } = kind;
  if (operation !== 'attention' || Object.keys(operands.tables).length > 0) return false;
  const { v, o } = operands.operands;
  if (v?.axes.join(' ') !== AXES || o?.axes.join(' ') !== AXES) return false;
  if (Object.keys(operands.operands).some((name) => !FORWARD.includes(name as OperandName))) return false;
  const [output, values] = [outputOf(kind), tensorNamed(kind, v.tensor)];
  return (
    output.name === o.tensor &&
    values.dtype === output.dtype &&
    matricesOf(values).columns === matricesOf(output).columns &&
    matricesOf(output).heads % matricesOf(values).heads === 0
  );
}

interface WrongRow {
  readonly got: Float64Array;
  readonly want: Float64Array;
}

/** got = scale * want + the sum of `parts[n] * values[keys[n]]`, for each row. */
interface Explained {
  readonly keys: readonly number[];
  readonly rows: readonly { readonly scale: number; readonly parts: readonly number[] }[];
}

/**
 * Adds the key whose value explains most of what is left of all rows' errors, until rounding explains the rest
 * (orthogonal matching pursuit). Undefined if that takes too many keys.
 */
function explain(
  wrongRows: readonly WrongRow[],
  values: readonly Float64Array[],
  rounding: number,
): Explained | undefined {
  const columns = values[0]?.length ?? 0;
  const all = sumOf(wrongRows, ({ got, want }) => squares(got, want));
  const enough = Math.max(1e-4 * all, 2 * rounding ** 2 * sumOf(wrongRows, ({ got }) => dot(got, got)));
  const fits = wrongRows.map((row) => new RowFit(row));
  const lengths = values.map((value) => dot(value, value));
  const left = (): number => sumOf(fits, ({ rest }) => dot(rest, rest));
  const keys: number[] = [];
  while (left() > enough && keys.length < MOST_SHARE_OF_COLUMNS * columns) {
    const others = range(values.length).filter((key) => !keys.includes(key) && lengths[key]! > 0);
    if (others.length === 0) break;
    const key = largest(others, (each) => sumOf(fits, ({ rest }) => dot(rest, values[each]!) ** 2) / lengths[each]!);
    keys.push(key);
    for (const fit of fits) fit.add(values[key]!);
  }
  if (!(left() <= EXPLAINED_SHARE * all) || keys.length === 0) return undefined;
  // The rows with the largest errors may be explained although most others are not.
  const unexplained = fits.filter(({ rest }, index) => {
    const { got, want } = wrongRows[index]!;
    return dot(rest, rest) > Math.max(MOST_LEFT_OF_ROW * squares(got, want), 4 * rounding ** 2 * dot(got, got));
  });
  if (unexplained.length > MOST_UNEXPLAINED * fits.length) return undefined;
  const rows = fits.map((fit) => fit.solve());
  const partOf = (place: number): number => sumOf(rows, ({ parts }) => parts[place]! ** 2) * lengths[keys[place]!]!;
  const most = Math.max(...keys.map((_, place) => partOf(place)));
  const places = keys.map((_, place) => place).filter((place) => partOf(place) >= LEAST_SHARE_OF_LARGEST * most);
  return {
    keys: places.map((place) => keys[place]!),
    rows: rows.map(({ scale, parts }) => ({ scale, parts: places.map((place) => parts[place]!) })),
  };
}

/** A key's part in a row with less than this share of the square of its largest is there by chance. */
const LEAST_SHARE_OF_KEY = 1e-2;

/**
 * Whether each key is wrong in several rows. If rows have keys of their own, the fault is in what a row sees, such as a
 * mask that is one off, and naming keys would mislead. Of a single wrong row among others nothing is known.
 */
function belongsToKeys({ keys, rows }: Explained, ofRows: number): boolean {
  if (rows.length === 1) return ofRows === 1;
  return keys.every((_, place) => {
    const most = Math.max(...rows.map(({ parts }) => parts[place]! ** 2));
    return rows.filter(({ parts }) => parts[place]! ** 2 >= LEAST_SHARE_OF_KEY * most).length > 1;
  });
}

/** Least squares for a row's error: of the right row, because the weights of a row add up to 1, and of values. */
class RowFit {
  /** The error that is left after subtracting what the keys found so far explain. */
  readonly rest: Float64Array;
  readonly #basis: Float64Array[] = [];
  /** Each vector in terms of the basis. */
  readonly #coordinates: number[][] = [];
  readonly #solved: number[] = [];

  constructor({ got, want }: WrongRow) {
    this.rest = got.map((value, index) => value - want[index]!);
    this.add(want);
  }

  add(vector: Float64Array): void {
    const direction = vector.slice();
    const coordinates = this.#basis.map((unit) => {
      const along = dot(direction, unit);
      subtract(direction, unit, along);
      return along;
    });
    const length = Math.sqrt(dot(direction, direction));
    // A vector that the others make up adds nothing.
    const isNew = length > 1e-6 * Math.sqrt(dot(vector, vector));
    const unit = direction.map((value) => (isNew ? value / length : 0));
    const along = dot(this.rest, unit);
    subtract(this.rest, unit, along);
    this.#basis.push(unit);
    this.#coordinates.push([...coordinates, isNew ? length : 0]);
    this.#solved.push(along);
  }

  /** The factors of the right row and of each value. */
  solve(): { scale: number; parts: number[] } {
    const left = [...this.#solved];
    const factors = left.map(() => 0);
    for (let place = left.length - 1; place >= 0; place -= 1) {
      const coordinates = this.#coordinates[place]!;
      const length = coordinates[place]!;
      const factor = length === 0 ? 0 : left[place]! / length;
      factors[place] = factor;
      for (let below = 0; below < place; below += 1) left[below]! -= factor * coordinates[below]!;
    }
    const [ofWant = 0, ...parts] = factors;
    return { scale: 1 + ofWant, parts };
  }
}

interface AskedWeights {
  readonly kind: ProblemCase;
  readonly inputs: TensorsByName;
  readonly head: number;
  readonly rows: readonly number[];
  /** Fewer than V has columns. */
  readonly keys: readonly number[];
}

/**
 * The right weights of a head's keys in these rows, in the order of `keys`. The oracle computes them: where V holds a
 * unit vector for a key, a column of the output is the key's weight.
 */
function weightsOf(reference: Reference, { kind, inputs, head, rows, keys }: AskedWeights): Float64Array[] {
  const valueTensor = tensorNamed(kind, kind.operands.operands.v!.tensor);
  const { heads, rows: ofKeys, columns } = matricesOf(valueTensor);
  const { rows: queries } = matricesOf(outputOf(kind));
  const units = new Float32Array(heads * ofKeys * columns);
  for (let each = 0; each < heads; each += 1)
    for (const [column, key] of keys.entries()) units[(each * ofKeys + key) * columns + column] = 1;
  const answer = reference.fp64({ ...inputs, [valueTensor.name]: tensorOf(units, outputOf(kind).dtype) }, kind);
  return rows.map((row) => slice(answer, (head * queries + row) * columns, keys.length));
}

/** A key's weight in a row. */
interface Sample {
  readonly row: number;
  readonly right: number;
  /** The weight that the kernel gives. A factor that it gives to all keys of the row is divided out. */
  readonly got: number;
}

/** Below this share of an even weight, rounding hides what the kernel made of a key. */
const LEAST_WEIGHT = 0.1;
const VANISHED = 0.03;
/** Mean of hidden weights, as a share of an even weight. */
const HIDDEN = 1e-3;
const LIKE_OTHERS = 0.05;
const LINEAR = 0.95;
const LEAST_CHANGE = 0.02;

/** How the kernel changed the weights, which follow the keys' order; undefined if no simple change explains them. */
function changeOf({ keys, rows }: Explained, weights: readonly Float64Array[], ofKeys: number): WrongKeys['change'] {
  const all = rows.flatMap(({ scale, parts }, row) =>
    keys.map((_, place): Sample => {
      const right = weights[row]![place]!;
      return { row, right, got: right + parts[place]! / scale };
    }),
  );
  const even = 1 / ofKeys;
  const rightSum = sumOf(all, ({ right }) => right);
  const gotSum = sumOf(all, ({ got }) => Math.abs(got));
  if (rightSum <= HIDDEN * even * all.length) return { kind: 'hidden' };
  if (gotSum <= VANISHED * rightSum) return { kind: 'left-out' };
  const samples = all.filter(({ right, got }) => right >= LEAST_WEIGHT * even && got > 0);
  if (samples.length < keys.length || samples.length < 2) return undefined;
  const ratios = samples.map(({ right, got }) => got / right).toSorted((a, b) => a - b);
  const middle = ratios[Math.floor(ratios.length / 2)]!;
  const spread = sumOf(ratios, (ratio) => Math.abs(ratio / middle - 1)) / ratios.length;
  if (spread <= LIKE_OTHERS && Math.abs(middle - 1) > LEAST_CHANGE) return { kind: 'weights', factor: middle };
  const factor = logitFactor(samples);
  return factor === undefined ? undefined : { kind: 'logits', factor };
}

/**
 * The factor of the logits if the logarithms of the weights' ratios are linear in the logits. A weight's logarithm is
 * its logit, up to a number of the row. That number varies little, so a single key is compared between rows.
 */
function logitFactor(samples: readonly Sample[]): number | undefined {
  const byRow = [...Map.groupBy(samples, ({ row }) => row).values()];
  const groups = byRow.some(({ length }) => length > 1) ? byRow : [samples];
  const centred = groups.flatMap((ofRow) => {
    const x = ofRow.map(({ right }) => Math.log(right));
    const y = ofRow.map(({ right, got }) => Math.log(got / right));
    const [meanX, meanY] = [x, y].map((each) => sumOf(each, (value) => value) / each.length) as [number, number];
    return x.map((value, index) => [value - meanX, y[index]! - meanY] as const);
  });
  const [xx, xy, yy] = [
    sumOf(centred, ([x]) => x * x),
    sumOf(centred, ([x, y]) => x * y),
    sumOf(centred, ([, y]) => y * y),
  ];
  if (xx === 0 || yy === 0 || xy ** 2 < LINEAR * xx * yy) return undefined;
  const slope = xy / xx;
  return Math.abs(slope) > LEAST_CHANGE ? 1 + slope : undefined;
}

const range = (count: number): number[] => Array.from({ length: count }, (_, index) => index);
const slice = (values: Float32Array | Float64Array, from: number, count: number): Float64Array =>
  Float64Array.from(values.subarray(from, from + count));

function sumOf<Item>(items: readonly Item[], of: (item: Item) => number): number {
  return items.reduce((sum, item) => sum + of(item), 0);
}

/** The item with the largest figure. */
function largest(items: readonly number[], of: (item: number) => number): number {
  let [best, most] = [items[0] ?? 0, -Infinity];
  for (const item of items) {
    const figure = of(item);
    if (figure > most) [best, most] = [item, figure];
  }
  return best;
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let index = 0; index < a.length; index += 1) sum += a[index]! * b[index]!;
  return sum;
}

function subtract(from: Float64Array, unit: Float64Array, times: number): void {
  for (let index = 0; index < from.length; index += 1) from[index]! -= times * unit[index]!;
}

/** Sum of squares of got - want. */
function squares(
  got: Float32Array | Float64Array,
  want: Float64Array,
  { from, to }: { from: number; to: number } = { from: 0, to: want.length },
): number {
  let sum = 0;
  for (let index = from; index < to; index += 1) sum += (got[index]! - want[index]!) ** 2;
  return sum;
}
