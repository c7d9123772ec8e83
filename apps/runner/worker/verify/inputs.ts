import type { Reference } from '../driver/reference.ts';
import {
  emptyBits,
  matricesOf,
  tensorOf,
  type Matrices,
  type TensorBits,
  type TensorsByName,
} from '../driver/tensor-bits.ts';
import {
  DTYPES,
  elementsOfTensor,
  isSmall,
  type InputKind,
  type ProblemCase,
  type TensorDtype,
  type TensorExtent,
  type TensorRole,
} from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { InputRule, SeededInput } from '../messages/launchable.ts';
import { emptyParts } from './empty-parts.ts';
import { CounterRandom, type NormalDrawer } from './random.ts';
import { drawTables, markNobodysRows } from './tables.ts';

/** N(0, 1) everywhere. */
export const NORMAL: InputRule = {
  name: 'normal',
  q: 'normal',
  k: 'normal',
  v: 'normal',
  logitScale: 1,
  valueScale: 1,
};

/** What the native library draws. An experiment has 44 million normal values, which take two seconds in JavaScript. */
export type InputDrawer = Pick<Reference, 'normal' | 'derived'>;

/**
 * Draws a case's inputs from a seed and a rule, and rounds them to their dtypes. A seed gives the same bits on every
 * host, with or without a drawer; a drawer is faster, and inputs that the oracle computes need one. A tensor's role
 * selects its part of the rule. Tables follow their own rules.
 */
export function drawInputs(drawnCase: ProblemCase, input: SeededInput, drawer?: InputDrawer): TensorsByName {
  const { rule, seed } = input;
  const shared = sharedVectors(drawnCase, input.sharedSeed ?? seed);
  const inputs = drawnCase.tensors.filter(({ direction }) => direction === 'in');
  const tables = drawTables(drawnCase, {
    random: (tensor) => new CounterRandom(seed, streamOfTable(tensor, inputs)),
    evenLengths: input.evenLengths ?? false,
  });
  const values = inputs.flatMap((tensor): [string, TensorBits][] => {
    const { name, draw, dtype } = tensor;
    if (draw?.kind === 'derived') return [];
    if (dtype === 'int32') return [[name, entryOf(tables, name)!]];
    const bits = drawn(tensor, { stream: streamOf(tensor, inputs), dtype, ...ruleFor(tensor, rule) });
    markNobodysRows(bits, tensor, drawnCase, tables);
    return [[name, bits]];
  });
  const named = Object.fromEntries(values);
  if (drawnCase.operation === 'merge' && !input.evenLengths)
    emptyParts(named, drawnCase, new CounterRandom(seed, EMPTY_STREAM));
  if (values.length === inputs.length) return named;
  if (!drawer) throw new Error(`inputs of ${drawnCase.problem} follow from others, and no oracle was given`);
  return { ...named, ...drawer.derived(named, drawnCase) };

  function drawn(tensor: TensorExtent, { kind, stream, scale, dtype }: TensorRule): TensorBits {
    const random = new CounterRandom(seed, stream);
    if (kind === 'normal' && drawer && !isSmall(dtype)) {
      const bits = emptyBits(elementsOfTensor(tensor), dtype);
      return drawer.normal(bits, { dtype, key: random.key, stream: random.stream, scale });
    }
    if (kind === 'constant') return constantRows(matricesOf(tensor), { dtype, random, scale });
    if (kind === 'one_hot') return oneHotRows(matricesOf(tensor), { dtype, random, scale });
    const layout = layoutOf(tensor, drawnCase);
    const drawing = {
      dtype,
      range: dtype === 'fp32' ? drawnCase.dtype : dtype,
      random,
      drawer,
      scale,
      ...shared(layout),
    };
    // The inputs of timed launches, which have even lengths, are flipped.
    const lowest = !input.evenLengths && !tensor.rows;
    // Without a drawer, normal numbers must be where a drawer puts them.
    const values =
      kind === 'normal'
        ? drawTensor(kind, matricesOf(tensor), drawing)
        : inTensorOrder(drawTensor(kind, layout, drawing), layout);
    return drawnBits(values, { dtype, lowest });
  }
}

interface TensorRule {
  kind: DrawnKind;
  /** Stream of the random numbers. */
  stream: number;
  scale: number;
  dtype: TensorDtype;
}

/** The first tensor of each role keeps the stream of Q, K or V, so that attention's inputs keep their bits. */
const ROLE_STREAMS = { q: 1, k: 2, v: 3 } as const satisfies Partial<Record<TensorRole, number>>;
type StreamRole = keyof typeof ROLE_STREAMS;
const DIRECTION_STREAM = 4;
const EXPONENT_STREAM = 5;
const FIRST_OTHER_STREAM = 6;
/** The stream that decides which parts are empty; inputs use lower numbers. */
const EMPTY_STREAM = 0x1000;

function streamOf(tensor: TensorExtent, inputs: readonly TensorExtent[]): number {
  const firsts = (Object.keys(ROLE_STREAMS) as StreamRole[]).map((role) => inputs.find((each) => each.role === role));
  if (firsts.includes(tensor)) return ROLE_STREAMS[tensor.role as StreamRole];
  return FIRST_OTHER_STREAM + inputs.filter((each) => !firsts.includes(each)).indexOf(tensor);
}

/**
 * A run draws few seeds and many shapes. Tables of different extents have streams of their own, so that what one draw
 * in eight has is not missing on all shapes of a seed.
 */
const streamOfTable = (tensor: TensorExtent, inputs: readonly TensorExtent[]): number =>
  [...tensor.dims, ...inputs.flatMap(({ dims }) => dims)].reduce(
    (mixed, extent) => Math.imul(mixed ^ extent, 0x0100_0193) >>> 0,
    streamOf(tensor, inputs),
  );

/** How a tensor is drawn, which a distribution or the tensor's role determines. */
type DrawnKind = InputKind | 'sinks' | 'slopes' | 'masked';

/** Multiple of the logits' scale for sinks. A head's sink then weighs as much as one key or as hundreds. */
const SINK_SCALE = 4;

interface DrawnFor {
  dtype: TensorDtype;
  /** Whether int8 may have -128. Its negative does not fit into 8 bits, and in ragged tensors it marks padding. */
  lowest: boolean;
}

/** The smallest number of a dtype: int8 has one more below 0 than above. */
const lowestOf = (dtype: TensorDtype, { largest }: { largest: number }): number =>
  dtype === 'int8' ? -largest - 1 : -largest;

const drawnBits = (values: Float32Array<ArrayBuffer>, { dtype, lowest }: DrawnFor): TensorBits =>
  tensorOf(
    dtype === 'int8' && !lowest ? values.map((value) => Math.max(-DTYPES.int8.format.largest, value)) : values,
    dtype,
  );

function ruleFor(tensor: TensorExtent, rule: InputRule): { kind: DrawnKind; scale: number } {
  const { kind, scale } = roleRule(tensor, rule);
  const unit = tensor.dtype === 'int32' || kind === 'slopes' ? 1 : DTYPES[tensor.dtype].drawnUnit;
  return { kind, scale: scale * unit };
}

function roleRule({ role }: TensorExtent, rule: InputRule): { kind: DrawnKind; scale: number } {
  const logits = rule.logitScale * (rule.keyScale ?? 1);
  switch (role) {
    case 'q':
      return { kind: rule.q, scale: rule.logitScale };
    case 'k':
      return { kind: rule.k, scale: rule.keyScale ?? 1 };
    case 'v':
      return { kind: rule.v, scale: rule.valueScale };
    case 'gradient':
      return { kind: rule.gradient ?? rule.v, scale: rule.gradientScale ?? rule.valueScale };
    case 'sink':
      return { kind: 'sinks', scale: SINK_SCALE * logits };
    case 'slope':
      return { kind: 'slopes', scale: 1 };
    case 'bias':
      return { kind: 'masked', scale: logits };
  }
}

/**
 * Computes a value when it is first needed. Most rules need no shared vectors, which have four million elements each
 * for 65,535 heads.
 */
function once<Value>(compute: () => Value): () => Value {
  let value: Value | undefined;
  return () => (value ??= compute());
}

/** A tensor as matrices of the rows of one head of one sequence, whatever the order of its dimensions. */
interface Layout extends Matrices {
  /** Number of matrices whose rows alternate in memory, as heads do in [tokens, heads, columns]; 1: none. */
  readonly interleaved: number;
  /** Number of sequences, or of pages. */
  readonly batches: number;
  /** The sequence and the head of a matrix. */
  readonly placeOf: (matrix: number) => { batch: number; head: number };
}

/** Parts of a merge, and tensors whose dimensions the problem does not name, have rows that are next to each other. */
function layoutOf(tensor: TensorExtent, { operands: { operands } }: ProblemCase): Layout {
  const operand = Object.values(operands).find(({ tensor: name, more }) => [name, more].includes(tensor.name));
  const matrices = matricesOf(tensor);
  if (!operand?.axes.includes('s') || operand.axes.includes('p') || operand.axes.at(-1) !== 'd')
    return { ...matrices, interleaved: 1, batches: 1, placeOf: (head) => ({ batch: 0, head }) };
  const { axes } = operand;
  const { dims } = tensor;
  const product = (extents: readonly number[]): number => extents.reduce((so, extent) => so * extent, 1);
  const tokens = axes.indexOf('s');
  const batches = product(dims.filter((_, index) => axes[index] === 'b'));
  const heads = product(dims.filter((_, index) => axes[index] === 'h'));
  const sequencesFirst = axes.indexOf('b') < axes.indexOf('h');
  return {
    ...{ heads: batches * heads, rows: dims[tokens]!, columns: matrices.columns, batches },
    interleaved: product(dims.slice(tokens + 1, -1)),
    placeOf: (matrix) =>
      sequencesFirst
        ? { batch: Math.floor(matrix / heads), head: matrix % heads }
        : { batch: matrix % batches, head: Math.floor(matrix / batches) },
  };
}

/** Puts the rows of matrices in the order that they have in memory. */
function inTensorOrder(
  values: Float32Array<ArrayBuffer>,
  { heads, rows, columns, interleaved }: Layout,
): Float32Array<ArrayBuffer> {
  if (interleaved === 1) return values;
  const ordered = new Float32Array(values.length);
  for (let matrix = 0, from = 0; matrix < heads; matrix += 1) {
    const first = (matrix - (matrix % interleaved)) * rows + (matrix % interleaved);
    for (let row = 0; row < rows; row += 1, from += columns)
      ordered.set(values.subarray(from, from + columns), (first + row * interleaved) * columns);
  }
  return ordered;
}

interface SharedVectors {
  /** A vector of 1 and -1 per group of heads, [groups, columns]; Q and K share it. */
  directions: () => Float32Array;
  /** A power of two per channel of a group, [groups, columns]; it multiplies K and divides Q. */
  exponents: () => Int8Array;
  /** The group of a matrix. */
  groupOf: (matrix: number) => number;
}

/**
 * Makes the vectors that Q and K share in a group; heads of Q that share a head of K form a group. The sequences share
 * them as well if K is in pages, which a page table assigns to sequences.
 */
function sharedVectors(drawnCase: ProblemCase, seed: string): (layout: Layout) => SharedVectors {
  const { tensors, dtype } = drawnCase;
  const [queries, keys] = (['q', 'k'] as const).map((role) => {
    const tensor = tensors.find((each) => each.role === role && each.direction === 'in');
    return tensor && layoutOf(tensor, drawnCase);
  });
  const byExtent = new Map<string, Pick<SharedVectors, 'directions' | 'exponents'>>();
  return (layout) => {
    const { columns } = layout;
    const batches = keys && queries?.batches === keys.batches ? keys.batches : 1;
    const headsOf = ({ heads, batches: all }: Layout): number => heads / all;
    const groups = headsOf(keys ?? layout);
    const key = `${batches * groups}x${columns}`;
    const vectors = byExtent.get(key) ?? {
      directions: once(() => drawDirections(batches * groups * columns, seed)),
      exponents: once(() => drawExponents(batches * groups * columns, { seed, most: DTYPES[dtype].channelExponent })),
    };
    byExtent.set(key, vectors);
    const groupsOf = once(() =>
      Array.from({ length: layout.heads }, (_, matrix) => {
        const { batch, head } = layout.placeOf(matrix);
        return (batches === 1 ? 0 : batch * groups) + Math.floor((head * groups) / headsOf(layout));
      }),
    );
    return {
      ...vectors,
      groupOf: (matrix) => groupsOf()[matrix]!,
    };
  };
}

interface Drawing extends SharedVectors {
  dtype: TensorDtype;
  /** The dtype whose exponents values have. An fp32 tensor may hold partial results of a narrower output. */
  range: TensorDtype;
  random: CounterRandom;
  drawer: NormalDrawer | undefined;
  scale: number;
}

function drawTensor(
  rule: Exclude<DrawnKind, 'constant' | 'one_hot'>,
  { heads, rows: rowCount, columns }: Matrices,
  { dtype, range, random, drawer, scale, directions, exponents, groupOf }: Drawing,
): Float32Array<ArrayBuffer> {
  const values = new Float32Array(heads * rowCount * columns);
  /**
   * Fills with noise N(0, noise), and adds `along(row)` times the direction of the head's group, or of `group` for all
   * heads.
   */
  const rows = (noise: number, along: (row: number, head: number) => number, group?: number): void => {
    if (noise > 0) random.fillNormal(values, noise * scale, drawer);
    const direction = directions();
    for (let start = 0, row = 0; start < values.length; start += columns, row += 1) {
      const head = Math.floor(row / rowCount);
      const from = (group ?? groupOf(head)) * columns;
      const amount = along(row % rowCount, head) * scale;
      for (let d = 0; d < columns; d += 1) values[start + d]! += amount * direction[from + d]!;
    }
  };
  /** Replaces every element separately. */
  const each = (value: (now: number, head: number, channel: number) => number): void => {
    for (let head = 0, i = 0; head < heads; head += 1)
      for (let row = 0; row < rowCount; row += 1)
        for (let channel = 0; channel < columns; channel += 1, i += 1) values[i] = value(values[i]!, head, channel);
  };
  const ofHeads = <Value>(make: (head: number) => Value): Value[] =>
    Array.from({ length: heads }, (_, head) => make(head));
  /** A magnitude from 1/2 to 2, below 1 as often as above. */
  const magnitude = (): number => scale * 2 ** ((2 * random.next()) / 2 ** 32 - 1);
  /** The factor along the direction of Q that gives this logit, because Q K^T / sqrt(D) has D addends. */
  const logit = (wanted: number): number => wanted / Math.sqrt(columns);
  /** One sign for a channel of a head, and the other for the next channel. */
  const signOf = (head: number, channel: number): number => ((groupOf(head) + channel) % 2 === 0 ? 1 : -1);
  const last = Math.max(1, rowCount - 1);
  /** Inputs of bf16 and fp32 reach the ends of fp16; inputs of 8 bits reach the ends of their own dtype. */
  const ends = DTYPES[isSmall(dtype) ? dtype : 'fp16'].format;
  const steps = 2 ** ends.mantissa;
  switch (rule) {
    case 'normal':
      random.fillNormal(values, scale, drawer);
      break;
    case 'along':
      rows(0, () => 1);
      break;
    case 'near':
      rows(1 / 4, () => 1);
      break;
    case 'either_way':
      rows(0, () => (random.below(2) === 0 ? 1 : -1));
      break;
    case 'toward':
      rows(1 / 4, () => 1, 0);
      break;
    case 'few_far':
      rows(1, () => (random.below(FAR_ONE_IN) === 0 ? logit(FAR_LOGIT) : 0), 0);
      break;
    case 'rising':
      rows(1 / 4, (row) => logit(MOST_LOGIT * ((2 * row) / last - 1)));
      break;
    case 'falling':
      rows(1 / 4, (row) => logit(MOST_LOGIT * (1 - (2 * row) / last)));
      break;
    case 'far':
      rows(1, () => logit(FAR_LOGIT));
      break;
    case 'one_far': {
      // In the first head the far key is the last one, so that a kernel that skips the tail loses it.
      const keys = ofHeads((head) => (head === 0 ? last : random.below(rowCount)));
      rows(1, (row, head) => (row === keys[head] ? logit(FAR_LOGIT) : 0));
      break;
    }
    case 'half_weight': {
      const keys = ofHeads(() => random.below(rowCount));
      rows(1 / 4, (row, head) => (row === keys[head] ? logit(Math.log(rowCount)) : 0));
      break;
    }
    case 'far_steps': {
      const step = columns > FAR_STEP_COLUMNS ? 2 * FAR_STEP : FAR_STEP;
      const most = Math.floor(Math.min(MOST_FAR_LOGIT / (step * Math.sqrt(columns)), MOST_FAR_SUM / (step * columns)));
      rows(0, () => step * (random.below(2 * most + 1) - most));
      break;
    }
    case 'rows_apart':
    case 'rows_far_apart':
    case 'rows_larger': {
      // Larger values have one sign, because an honest kernel's error is beyond the tolerance where they cancel out.
      if (rule === 'rows_larger') each(magnitude);
      else random.fillNormal(values, scale, drawer);
      const factors = APART[rule];
      const factor = (): number => factors[random.below(factors.length)]!;
      // Whole heads, or rows of any head, but never the first. One is apart by each factor, and in half of the draws
      // others are, too.
      const length = columns * (heads > 1 && random.below(2) === 0 ? rowCount : 1);
      const others = values.length / length - 1;
      const lone = factors.map(() => 1 + random.below(Math.max(1, others)));
      const many = random.below(2) === 0;
      for (let unit = 1; unit <= others; unit += 1) {
        const place = lone.indexOf(unit);
        if (place < 0 && !(many && random.below(APART_ONE_IN) === 0)) continue;
        const times = place < 0 ? factor() : factors[place]!;
        for (let i = unit * length; i < (unit + 1) * length; i += 1) values[i]! *= times;
      }
      break;
    }
    case 'two_steps':
      rows(0, (row) => (row < (3 / 8) * rowCount ? 0 : logit(LOW_STEP_LOGIT)));
      break;
    case 'largest':
      for (let i = 0; i < values.length; i += 1)
        values[i] = random.below(2) === 0 ? ends.largest : lowestOf(dtype, ends);
      break;
    case 'upper_half':
      // One sign in a channel: where large numbers cancel out, an honest kernel's error is beyond the tolerance.
      each((_, head, channel) => signOf(head, channel) * scale * upperHalf(ends.largest, random.next() / 2 ** 32));
      break;
    case 'lone_row': {
      random.fillNormal(values, scale, drawer);
      const all = values.length / columns;
      const lone = all > 1 ? 1 + random.below(all - 1) : 0;
      for (let d = 0; d < columns; d += 1)
        values[lone * columns + d] = (-1) ** d * LONE_ROW * upperHalf(ends.largest, random.next() / 2 ** 32);
      break;
    }
    case 'one_sign':
      each((_, head, channel) => {
        const sign = signOf(head, channel);
        // Sums of int8 are as large as they can be only if all products have one sign and both factors are large.
        return sign * (dtype === 'int8' ? upperHalf(ends.largest, random.next() / 2 ** 32) : magnitude());
      });
      break;
    case 'subnormal':
      for (let i = 0; i < values.length; i += 1)
        values[i] = (random.below(2 * steps - 1) - (steps - 1)) * 2 ** (ends.least - ends.mantissa);
      break;
    case 'spread':
      each(() => (random.below(2) === 0 ? magnitude() : -magnitude()));
      break;
    case 'positive':
      each(magnitude);
      break;
    case 'few':
      each(() => scale * (random.below(3) - 1));
      break;
    case 'channels_up':
    case 'channels_down': {
      const up = rule === 'channels_up' ? 1 : -1;
      const powers = Float64Array.from(exponents(), (exponent) => 2 ** (up * exponent));
      random.fillNormal(values, scale, drawer);
      each((now, head, channel) => now * powers[groupOf(head) * columns + channel]!);
      break;
    }
    case 'outlier_channels': {
      random.fillNormal(values, scale, drawer);
      const outliers = ofHeads(() => [random.below(columns), random.below(columns)]);
      each((now, head, channel) => (outliers[head]!.includes(channel) ? now + OUTLIER_CHANNEL * scale : now));
      break;
    }
    case 'outlier_elements':
      random.fillNormal(values, scale, drawer);
      each((now) => (random.below(OUTLIER_ONE_IN) === 0 ? now * OUTLIER_ELEMENT : now));
      break;
    case 'lone_elements':
      random.fillNormal(values, scale, drawer);
      for (let start = 0; start < values.length; start += columns)
        values[start + random.below(columns)] = LONE_ELEMENT * scale;
      break;
    case 'repeated': {
      // In the first head only one row differs, so a check of a few rows hardly finds it.
      random.fillNormal(values, scale, drawer);
      const others = ofHeads((head) => (head === 0 ? Math.min(last, 1 + random.below(last)) : undefined));
      const common = values.slice();
      const headLength = rowCount * columns;
      for (let start = 0, row = 0; start < values.length; start += columns, row += 1) {
        const head = Math.floor(row / rowCount);
        const other = others[head];
        const isOther = other === undefined ? random.below(REPEATED_ONE_IN) === 0 : row % rowCount === other;
        const from = head * headLength;
        if (!isOther) values.set(common.subarray(from, from + columns), start);
      }
      break;
    }
    case 'lone_channel': {
      // One row in all places of a head, but for one channel.
      random.fillNormal(values, scale, drawer);
      const channels = ofHeads(() => random.below(columns));
      const headLength = rowCount * columns;
      for (const [head, channel] of channels.entries()) {
        const common = values.slice(head * headLength, head * headLength + columns);
        for (let start = head * headLength; start < (head + 1) * headLength; start += columns) {
          const own = LONE_CHANNEL * values[start + channel]!;
          values.set(common, start);
          values[start + channel] = own;
        }
      }
      break;
    }
    case 'lone_upper_half': {
      random.fillNormal(values, scale, drawer);
      const channels = ofHeads(() => random.below(columns));
      each((now, head, channel) =>
        channel === channels[head]
          ? signOf(head, channel) * scale * upperHalf(ends.largest, random.next() / 2 ** 32)
          : now,
      );
      break;
    }
    case 'lone_element':
      random.fillNormal(values, scale, drawer);
      values[random.below(values.length)] = LONE_ROW * upperHalf(ends.largest, random.next() / 2 ** 32);
      break;
    case 'cancelling': {
      // The first half of a row's products with its direction is as large as the second, which has the other sign.
      const direction = directions();
      each((_, head, channel) => {
        const sign = channel < columns / 2 ? 1 : -1;
        const element = direction[groupOf(head) * columns + channel]! * (sign * CANCELLING + random.below(3) - 1);
        return element * scale;
      });
      break;
    }
    case 'sinks':
      random.fillNormal(values, scale, drawer);
      each((now) => (random.below(FAR_SINK_ONE_IN) === 0 ? MOST_FAR_LOGIT * (random.next() / 2 ** 31 - 1) : now));
      break;
    case 'slopes':
      each(() => 2 ** (-LEAST_SLOPE * (random.next() / 2 ** 32)));
      break;
    case 'masked':
      random.fillNormal(values, scale, drawer);
      each((now) => (random.below(MASKED_ONE_IN) === 0 ? -Infinity : now));
      for (let start = 0; start < values.length; start += columns) {
        const run = random.below(MASKED_RUN_ONE_IN * 2);
        if (run > 1) continue;
        // As the padding before or behind a sequence.
        const first = run === 0 ? 0 : random.below(columns);
        const length = Math.max(1, random.below(columns));
        values.fill(-Infinity, start + first, start + Math.min(columns, first + length));
      }
      // Where all keys of a query have a low bias, none of them is hidden.
      for (let start = 0; start < values.length; start += columns) {
        const far = random.below(FAR_BIAS_ONE_IN);
        if (far > 1) continue;
        for (let i = start; i < start + columns; i += 1) values[i]! += far === 0 ? -FAR_BIAS : FAR_BIAS;
      }
      break;
    case 'two_scales': {
      random.fillNormal(values, scale, drawer);
      const factors = ofHeads(() => Array.from({ length: columns }, () => 1 + random.below(2)));
      each((now, head, channel) => now * factors[head]![channel]!);
      break;
    }
    case 'every_exponent': {
      const { least, most } = DTYPES[range].exponents;
      const between = Math.max(1, columns - 1);
      const powers = Array.from(
        { length: columns },
        (_, place) => 2 ** (least + Math.round((place / between) * (most - least))),
      );
      each((_, head, channel) => {
        const place = (channel + groupOf(head) * HEAD_SHIFT) % columns;
        return scale * (1 + random.next() / 2 ** 32) * powers[place]!;
      });
      break;
    }
  }
  return values;
}

/** Logits range from -100 to 100, so the maximum of the first 64 or 128 keys is far more than 88 below the last. */
const MOST_LOGIT = 100;
/**
 * At this logit exp() is infinite in fp32, or zero for its negative; a sum of fp16 logits is still far from overflow.
 */
const FAR_LOGIT = 120;
/** One in this many rows has a far logit: a first tile of 64 keys has none in six of ten cases. */
const FAR_ONE_IN = 128;
/**
 * A key is its head's direction times a multiple of 8, or of 16 in rows of more than 64 columns. Logits are at most
 * 2,000 for every number of columns. Products with 1 and -1 have exact sums even in fp16: multiples of 8 up to 2^14, or
 * of 16 up to 2^15.
 */
const FAR_STEP = 8;
const FAR_STEP_COLUMNS = 64;
const MOST_FAR_LOGIT = 2000;
const MOST_FAR_SUM = 28_672;
/** Numbers above half of the largest, by a share from 0 to 1. No mean of them is rounded to infinity. */
const upperHalf = (largest: number, share: number): number => largest * (0.5 + share * (MOST_OF_UPPER_HALF - 0.5));
const MOST_OF_UPPER_HALF = 0.92;
/** Half of the numbers above half of the largest: a symmetry of timed launches doubles them. */
const LONE_ROW = 1 / 2;
/**
 * Factors of the rows or heads that are apart. Logits exceed 88, where exp() overflows. Elements that are squared
 * exceed 255 or are below 2^-7, so that squares overflow or underflow in fp16. Values exceed the largest numbers of 8
 * bits.
 */
const APART = { rows_apart: [48], rows_far_apart: [256, 1 / 256], rows_larger: [256] } as const;
/** One in this many rows or heads is apart, in draws with more than one for each factor. */
const APART_ONE_IN = 4;
/** Gives weights of 0.05, which an fp16 sum no longer registers once it has passed 128. */
const LOW_STEP_LOGIT = Math.log(0.05);

/** Offset of a channel whose values are far from zero for every key, as in the keys of language models. */
const OUTLIER_CHANNEL = 64;
const OUTLIER_ELEMENT = 8;
const OUTLIER_ONE_IN = 64;
/**
 * Large enough that exp() overflows in fp32 and the square in fp16. A kernel that reads only some elements of a row
 * misses it.
 */
const LONE_ELEMENT = 300;
/** Logits of hundreds follow from the one channel in which rows differ. */
const LONE_CHANNEL = 256;
/** With 64 in Q, 16 products add up to 131,072. With 1 more or less, bf16 can still hold it. */
const CANCELLING = 128;
/** One in this many rows differs from the common row of its head. */
const REPEATED_ONE_IN = 8;
/** A bias hides one in this many keys from a query. */
const MASKED_ONE_IN = 8;
/** A bias also hides a run of keys from one in this many queries, because a kernel may test whole tiles only. */
const MASKED_RUN_ONE_IN = 4;
/**
 * One query in FAR_BIAS_ONE_IN has a bias that is lower by FAR_BIAS for all of its keys, and one has a bias that is
 * higher: a kernel may take a key with a low bias for a hidden one. A logit of this size still has 13 bits behind the
 * point in fp32.
 */
const FAR_BIAS = 1024;
const FAR_BIAS_ONE_IN = 8;
/** One in this many sinks is anywhere between the farthest logits. */
const FAR_SINK_ONE_IN = 4;
/** Slopes are from 2^-8 to 1. ALiBi's are from 2^-8 to 2^-(8 / heads), which is above 1/2 for 9 heads and more. */
const LEAST_SLOPE = 8;
/** Shift per head, so that heads have different exponents in the same channel. */
const HEAD_SHIFT = 7;

function drawDirections(length: number, seed: string): Float32Array {
  const random = new CounterRandom(seed, DIRECTION_STREAM);
  return Float32Array.from({ length }, () => (random.below(2) === 0 ? 1 : -1));
}

function drawExponents(length: number, { seed, most }: { seed: string; most: number }): Int8Array {
  const random = new CounterRandom(seed, EXPONENT_STREAM);
  return Int8Array.from({ length }, () => random.below(2 * most + 1) - most);
}

type RowDrawing = Pick<Drawing, 'dtype' | 'random' | 'scale'>;

/** All rows of a head are equal; heads differ. */
function constantRows({ heads, rows, columns }: Matrices, { dtype, random, scale }: RowDrawing): TensorBits {
  const tensor = emptyBits(heads * rows * columns, dtype);
  const row = new Float32Array(columns);
  for (let head = 0; head < tensor.length; head += rows * columns) {
    random.fillNormal(row, scale);
    tensor.set(drawnBits(row, { dtype, lowest: false }), head);
    for (let filled = columns; filled < rows * columns; filled *= 2)
      tensor.copyWithin(head + filled, head, head + Math.min(filled, rows * columns - filled));
  }
  return tensor;
}

function oneHotRows({ heads, rows, columns }: Matrices, { dtype, random, scale }: RowDrawing): TensorBits {
  const tensor = emptyBits(heads * rows * columns, dtype);
  const [one] = tensorOf(Float32Array.of(scale), dtype);
  for (let row = 0; row < tensor.length; row += columns) tensor[row + random.below(columns)] = one!;
  return tensor;
}
