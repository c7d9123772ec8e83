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
  elementsOfTensor,
  type InputKind,
  type ProblemCase,
  type TensorDtype,
  type TensorExtent,
  type TensorRole,
} from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { InputRule, SeededInput } from '../messages/launchable.ts';
import { CounterRandom } from './random.ts';
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

/** What draws normal values on all threads: an experiment draws 44 million, which take JavaScript two seconds. */
export type NormalDrawer = Pick<Reference, 'normal' | 'derived'>;

/**
 * Draws a case's inputs from a seed and a rule, and rounds them to their dtypes. A seed gives the same bits on every
 * host, with or without a drawer; a drawer is faster, and inputs that the oracle computes need one. A tensor's role
 * selects its part of the rule. Tables follow their own rules.
 */
export function drawInputs(drawnCase: ProblemCase, input: SeededInput, drawer?: NormalDrawer): TensorsByName {
  const { rule, seed } = input;
  const shared = sharedVectors(drawnCase, seed);
  const inputs = drawnCase.tensors.filter(({ direction }) => direction === 'in');
  const tables = drawTables(drawnCase, {
    random: (tensor) => new CounterRandom(seed, streamOf(tensor, inputs)),
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
  if (values.length === inputs.length) return named;
  if (!drawer) throw new Error(`inputs of ${drawnCase.problem} follow from others, and no oracle was given`);
  return { ...named, ...drawer.derived(named, drawnCase) };

  function drawn(tensor: TensorExtent, { kind, stream, scale, dtype }: TensorRule): TensorBits {
    const random = new CounterRandom(seed, stream);
    if (kind === 'normal' && drawer) {
      const bits = emptyBits(elementsOfTensor(tensor), dtype);
      return drawer.normal(bits, { dtype, key: random.key, stream: random.stream, scale });
    }
    const matrices = matricesOf(tensor);
    if (kind === 'constant') return constantRows(matrices, { dtype, random, scale });
    if (kind === 'one_hot') return oneHotRows(matrices, { dtype, random, scale });
    return tensorOf(drawTensor(kind, matrices, { dtype, random, scale, ...shared(matrices) }), dtype);
  }
}

interface TensorRule {
  kind: DrawnKind;
  /** Stream of the random numbers. */
  stream: number;
  scale: number;
  dtype: TensorDtype;
}

/** The first tensor of each role keeps the stream of Q, K or V, so that attention's inputs stay the same bits. */
const ROLE_STREAMS = { q: 1, k: 2, v: 3 } as const satisfies Partial<Record<TensorRole, number>>;
type StreamRole = keyof typeof ROLE_STREAMS;
const DIRECTION_STREAM = 4;
const EXPONENT_STREAM = 5;
const FIRST_OTHER_STREAM = 6;

function streamOf(tensor: TensorExtent, inputs: readonly TensorExtent[]): number {
  const firsts = (Object.keys(ROLE_STREAMS) as StreamRole[]).map((role) => inputs.find((each) => each.role === role));
  if (firsts.includes(tensor)) return ROLE_STREAMS[tensor.role as StreamRole];
  return FIRST_OTHER_STREAM + inputs.filter((each) => !firsts.includes(each)).indexOf(tensor);
}

/** How a tensor is drawn: as a distribution says, or as its role does. */
type DrawnKind = InputKind | 'slopes' | 'masked';

/** Of N(0, 1) logits, as sinks: a head's weighs as much as one key or as hundreds. */
const SINK_SCALE = 4;

function ruleFor({ role }: TensorExtent, rule: InputRule): { kind: DrawnKind; scale: number } {
  const logits = rule.logitScale * (rule.keyScale ?? 1);
  switch (role) {
    case 'q':
      return { kind: rule.q, scale: rule.logitScale };
    case 'k':
      return { kind: rule.k, scale: rule.keyScale ?? 1 };
    case 'v':
      return { kind: rule.v, scale: rule.valueScale };
    case 'sink':
      return { kind: 'normal', scale: SINK_SCALE * logits };
    case 'slope':
      return { kind: 'slopes', scale: 1 };
    case 'bias':
      return { kind: 'masked', scale: logits };
  }
}

/** Computed when it is first asked for: most rules need neither, and 65,535 heads have four million of each. */
function once<Value>(compute: () => Value): () => Value {
  let value: Value | undefined;
  return () => (value ??= compute());
}

interface SharedVectors {
  /** A vector of 1 and -1 per group of heads, [groups, columns]; Q and K share it. */
  directions: () => Float32Array;
  /** A power of two per channel of a group, [groups, columns]; it multiplies K and divides Q. */
  exponents: () => Int8Array;
  /** The group of a head. */
  groupOf: (head: number) => number;
}

/** Heads of Q that share a head of K form a group. */
function sharedVectors({ tensors }: ProblemCase, seed: string): (matrices: Matrices) => SharedVectors {
  const keys = tensors.find(({ role, direction }) => role === 'k' && direction === 'in');
  const byExtent = new Map<string, Pick<SharedVectors, 'directions' | 'exponents'>>();
  return ({ heads, columns }) => {
    const groups = keys === undefined ? heads : Math.min(heads, matricesOf(keys).heads);
    const key = `${groups}x${columns}`;
    const vectors = byExtent.get(key) ?? {
      directions: once(() => drawDirections(groups * columns, seed)),
      exponents: once(() => drawExponents(groups * columns, seed)),
    };
    byExtent.set(key, vectors);
    return { ...vectors, groupOf: (head) => Math.floor((head * groups) / heads) };
  };
}

interface Drawing extends SharedVectors {
  dtype: TensorDtype;
  random: CounterRandom;
  scale: number;
}

function drawTensor(
  rule: Exclude<DrawnKind, 'constant' | 'one_hot'>,
  { heads, rows: rowCount, columns }: Matrices,
  { dtype, random, scale, directions, exponents, groupOf }: Drawing,
): Float32Array<ArrayBuffer> {
  const values = new Float32Array(heads * rowCount * columns);
  /** Noise of N(0, noise) everywhere, and `along(row)` times the head's direction. */
  const rows = (noise: number, along: (row: number, head: number) => number): void => {
    if (noise > 0) random.fillNormal(values, noise * scale);
    const direction = directions();
    for (let start = 0, row = 0; start < values.length; start += columns, row += 1) {
      const head = Math.floor(row / rowCount);
      const from = groupOf(head) * columns;
      const amount = along(row % rowCount, head) * scale;
      for (let d = 0; d < columns; d += 1) values[start + d]! += amount * direction[from + d]!;
    }
  };
  /** Each element by itself. */
  const each = (value: (now: number, head: number, channel: number) => number): void => {
    for (let i = 0; i < values.length; i += 1)
      values[i] = value(values[i]!, Math.floor(i / (columns * rowCount)), i % columns);
  };
  const ofHeads = <Value>(make: (head: number) => Value): Value[] =>
    Array.from({ length: heads }, (_, head) => make(head));
  /** From 1/2 to 2, as many below 1 as above. */
  const magnitude = (): number => scale * 2 ** ((2 * random.next()) / 2 ** 32 - 1);
  /** Along the direction of Q, the logits that this gives: Q K^T / sqrt(D) has D addends. */
  const logit = (wanted: number): number => wanted / Math.sqrt(columns);
  const last = Math.max(1, rowCount - 1);
  switch (rule) {
    case 'normal':
      random.fillNormal(values, scale);
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
      // The first head's is its last key: what leaves a tail out loses it.
      const keys = ofHeads((head) => (head === 0 ? last : random.below(rowCount)));
      rows(1, (row, head) => (row === keys[head] ? logit(FAR_LOGIT) : 0));
      break;
    }
    case 'two_steps':
      rows(0, (row) => (row < (3 / 8) * rowCount ? 0 : logit(LOW_STEP_LOGIT)));
      break;
    case 'largest':
      for (let i = 0; i < values.length; i += 1) values[i] = random.below(2) === 0 ? LARGEST_FP16 : -LARGEST_FP16;
      break;
    case 'subnormal':
      for (let i = 0; i < values.length; i += 1) values[i] = (random.below(2047) - 1023) * SMALLEST_FP16;
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
      const powers = exponents();
      random.fillNormal(values, scale);
      each((now, head, channel) => now * 2 ** (up * powers[groupOf(head) * columns + channel]!));
      break;
    }
    case 'outlier_channels': {
      random.fillNormal(values, scale);
      const outliers = ofHeads(() => [random.below(columns), random.below(columns)]);
      each((now, head, channel) => (outliers[head]!.includes(channel) ? now + OUTLIER_CHANNEL * scale : now));
      break;
    }
    case 'outlier_elements':
      random.fillNormal(values, scale);
      each((now) => (random.below(OUTLIER_ONE_IN) === 0 ? now * OUTLIER_ELEMENT : now));
      break;
    case 'repeated': {
      // Of the first head one row is another: a look at a few rows finds it as seldom as can be.
      random.fillNormal(values, scale);
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
    case 'slopes':
      each(() => 2 ** -(1 + 7 * (random.next() / 2 ** 32)));
      break;
    case 'masked':
      random.fillNormal(values, scale);
      each((now) => (random.below(MASKED_ONE_IN) === 0 ? -Infinity : now));
      break;
    case 'two_scales': {
      random.fillNormal(values, scale);
      const factors = ofHeads(() => Array.from({ length: columns }, () => 1 + random.below(2)));
      each((now, head, channel) => now * factors[head]![channel]!);
      break;
    }
    case 'every_exponent': {
      const { least, most } = EXPONENTS[dtype];
      const steps = Math.max(1, columns - 1);
      each((_, head, channel) => {
        const place = (channel + head * HEAD_SHIFT) % columns;
        return scale * (1 + random.next() / 2 ** 32) * 2 ** (least + Math.round((place / steps) * (most - least)));
      });
      break;
    }
  }
  return values;
}

/** From minus to plus this, so that a maximum of the first 64 or 128 keys lies far more than 88 below the last. */
const MOST_LOGIT = 100;
/** Where exp() is infinite in fp32, or zero; a sum of fp16 logits is still far from its largest value. */
const FAR_LOGIT = 120;
/** Weights of 0.05, which a sum in fp16 no longer takes up once it has passed 128. */
const LOW_STEP_LOGIT = Math.log(0.05);
const LARGEST_FP16 = 65_504;
const SMALLEST_FP16 = 2 ** -24;

/** Of a channel whose values are far from zero for every key, as in the keys of language models. */
const OUTLIER_CHANNEL = 64;
const OUTLIER_ELEMENT = 8;
const OUTLIER_ONE_IN = 64;
/** Rows that are not the row that the others of their head are. */
const REPEATED_ONE_IN = 8;
/** Keys that a bias hides from a query. */
const MASKED_ONE_IN = 8;
/** Q is divided by up to 2 to this, and K multiplied. */
const MOST_CHANNEL_EXPONENT = 10;
/**
 * From fp16's smallest subnormal number to half of its largest; of the others far enough from both ends that a sum of
 * products with weights stays in fp32's normal numbers.
 */
const EXPONENTS: Readonly<Record<TensorDtype, { least: number; most: number }>> = {
  fp16: { least: -24, most: 14 },
  bf16: { least: -100, most: 100 },
  fp32: { least: -100, most: 100 },
};
/** So that heads have different exponents in the same channel. */
const HEAD_SHIFT = 7;

function drawDirections(length: number, seed: string): Float32Array {
  const random = new CounterRandom(seed, DIRECTION_STREAM);
  return Float32Array.from({ length }, () => (random.below(2) === 0 ? 1 : -1));
}

function drawExponents(length: number, seed: string): Int8Array {
  const random = new CounterRandom(seed, EXPONENT_STREAM);
  return Int8Array.from({ length }, () => random.below(2 * MOST_CHANNEL_EXPONENT + 1) - MOST_CHANNEL_EXPONENT);
}

type RowDrawing = Pick<Drawing, 'dtype' | 'random' | 'scale'>;

/** Every row of a head is the same row; heads differ. */
function constantRows({ heads, rows, columns }: Matrices, { dtype, random, scale }: RowDrawing): TensorBits {
  const tensor = emptyBits(heads * rows * columns, dtype);
  const row = new Float32Array(columns);
  for (let head = 0; head < tensor.length; head += rows * columns) {
    random.fillNormal(row, scale);
    tensor.set(tensorOf(row, dtype), head);
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
