/** Mutants of a problem: mistakes that a kernel could make, as changes of the oracle's computation. */
import { type Expression, ExpressionError, parseExpression } from '../data/expression.ts';
import { didYouMean } from '../text/nearest-names.ts';
import {
  ENTRY,
  MUTANT_ACTS,
  type RawMutant,
  type RawProblem,
  type ROUNDED_FORMATS,
  TABLE_ACTS,
  type UNWRITTEN_PARTS,
} from './problem-schema.ts';
import { ownersAndRow } from './tensor-rules.ts';
import { entryOf } from '../text/entry-of.ts';

export interface ProblemMutant {
  readonly name: string;
  readonly about: string;
  /** The mutant's place in messages: file, line and key. */
  readonly place?: string;
  readonly change: MutantChange;
}

export type MutantChange =
  /**
   * Other values in the oracle's case. With a smaller extent of an axis, the oracle does not see the last indices of
   * the inputs; with a larger extent, indices past the end start again at the first.
   */
  | { readonly kind: 'set'; readonly values: readonly { readonly name: string; readonly value: Expression }[] }
  | (TensorAct & { readonly tensor: string });

/** A change of one tensor: an input is changed before the oracle reads it, an output after it was computed. */
export type TensorAct =
  | { readonly kind: 'round'; readonly to: (typeof ROUNDED_FORMATS)[number] }
  /** Subnormal numbers of the tensor's dtype become 0. */
  | { readonly kind: 'flush' }
  | { readonly kind: 'clamp' | 'constant'; readonly value: number }
  /** A factor, as an expression over the case's values. */
  | { readonly kind: 'times'; readonly value: Expression }
  /** New elements of a table, as an expression over the case's values and ENTRY. */
  | { readonly kind: 'entries'; readonly value: Expression }
  /** `shift`: each index along the dimension holds the values of the next index; `last`: the last index holds zeros. */
  | { readonly kind: 'shift' | 'last'; readonly dim: number }
  /** The oracle computes as if the problem had no such input. */
  | { readonly kind: 'ignored' }
  | { readonly kind: 'unwritten'; readonly part: (typeof UNWRITTEN_PARTS)[number] };

type Key = (string | number)[];

export interface MutantReader {
  /** Parses an expression over axes, attributes and the names in `more`. */
  parse(text: string, key: Key, more?: readonly string[]): Expression;
  fault(key: Key, message: string): void;
}

export const readMutants = (raw: RawProblem, reader: MutantReader): ProblemMutant[] =>
  Object.entries(raw.mutants).map(([name, written]) => ({
    name,
    about: written.about,
    change: changeOf(written, { raw, reader, key: ['mutants', name] }),
  }));

/** Operands and tables that the oracle can do without. */
const IGNORED = ['selected', 'sinks', 'alibi_slopes', 'bias', 'key_lengths'] as const;

const mayBeIgnored = (tensor: string, { reference }: RawProblem): boolean =>
  IGNORED.some((name) => {
    const named = reference[name];
    return (typeof named === 'object' ? named.tensor : named) === tensor;
  });

interface Place {
  raw: RawProblem;
  reader: MutantReader;
  key: Key;
}

function changeOf({ set, tensor, ...acts }: RawMutant, { raw, reader, key }: Place): MutantChange {
  if (set)
    return {
      kind: 'set',
      values: Object.entries(set).map(([name, text]) => {
        const at = [...key, 'set', name];
        const wrong = whyNotSet(raw, name);
        if (wrong) reader.fault(at, wrong);
        return { name, value: reader.parse(text, at) };
      }),
    };
  const written = entryOf(raw.tensors, tensor!);
  const known = Object.keys(raw.tensors);
  if (!known.includes(tensor!)) {
    reader.fault([...key, 'tensor'], `unknown tensor "${tensor}"${orKnown(tensor!, known)}`);
    return { tensor: tensor!, kind: 'flush' };
  }
  const isTable = 'own' in written!.dtype && written!.dtype.own === 'int32';
  const act = MUTANT_ACTS.find((each) => acts[each] !== undefined)!;
  if (isTable && !TABLE_ACTS.includes(act))
    reader.fault([...key, act], `${tensor} is int32: use one of ${TABLE_ACTS.join(', ')}`);
  if (!isTable && act === 'entries')
    reader.fault([...key, act], `${tensor} holds floating-point numbers: name an int32 input`);
  if (acts.ignored !== undefined && !mayBeIgnored(tensor!, raw))
    reader.fault([...key, 'ignored'], `${raw.reference.op} needs ${tensor}: name one of ${IGNORED.join(', ')}`);
  if (acts.unwritten !== undefined && written!.in)
    reader.fault([...key, 'unwritten'], `${tensor} is an input: name an output`);
  return { tensor: tensor!, ...actOf(acts, { raw, tensor: tensor!, reader, key }) };
}

function actOf(
  acts: Omit<RawMutant, 'set' | 'tensor'>,
  { raw, tensor, reader, key }: Place & { tensor: string },
): TensorAct {
  const dimOf = (act: 'shift' | 'last'): number => {
    const { in: read, out } = entryOf(raw.tensors, tensor)!;
    const dims = (read ?? out)!.map((text) => text.trim());
    const dim = dims.indexOf(acts[act]!.trim());
    if (dim < 0)
      reader.fault([...key, act], `${tensor} has no dimension "${acts[act]}": name one of ${dims.join(', ')}`);
    return Math.max(0, dim);
  };
  if (acts.round !== undefined) return { kind: 'round', to: acts.round };
  if (acts.unwritten !== undefined) return { kind: 'unwritten', part: acts.unwritten };
  if (acts.ignored !== undefined) return { kind: 'ignored' };
  for (const kind of ['clamp', 'constant'] as const) if (acts[kind] !== undefined) return { kind, value: acts[kind] };
  if (acts.times !== undefined) return { kind: 'times', value: reader.parse(acts.times, [...key, 'times']) };
  if (acts.entries !== undefined)
    return { kind: 'entries', value: reader.parse(acts.entries, [...key, 'entries'], [ENTRY]) };
  for (const kind of ['shift', 'last'] as const) if (acts[kind] !== undefined) return { kind, dim: dimOf(kind) };
  return { kind: 'flush' };
}

/** Why the oracle's case cannot have another value of this name; undefined if it can. */
function whyNotSet({ axes, attributes, tensors }: RawProblem, name: string): string | undefined {
  if (Object.hasOwn(attributes, name)) return undefined;
  const known = [...Object.keys(axes), ...Object.keys(attributes)];
  if (!Object.hasOwn(axes, name)) return `unknown axis or attribute "${name}"${orKnown(name, known)}`;
  for (const [tensor, { in: read, out, draw, rows }] of Object.entries(tensors)) {
    const along = (read ?? out)!.filter((text) => namesIn(text).includes(name));
    if (along.length === 0) continue;
    if (out) return `the output ${tensor} has the axis ${name}: set one that only inputs have`;
    const { owners = [], row } = (rows === undefined ? undefined : ownersAndRow(tensors, rows)) ?? {};
    // A list of keys may end early along its last dimension, so the extent of this dimension may have another value.
    if (draw?.selected && along.length === 1 && along[0]!.trim() === name && read!.at(-1)!.trim() === name) continue;
    const isOwned = [...owners, ...(row === undefined ? [] : [row])].some((text) => namesIn(text).includes(name));
    if (draw || isOwned || along.some((text) => text.trim() !== name))
      return `${tensor} cannot be cut along ${name}: set an axis that is a dimension by itself, and counts neither sequences nor their rows`;
  }
  return undefined;
}

/** Names in an expression; empty for an invalid expression, whose fault is reported where its tensor is read. */
function namesIn(text: string): readonly string[] {
  try {
    return parseExpression(text).names;
  } catch (error) {
    if (error instanceof ExpressionError) return [];
    throw error;
  }
}

const orKnown = (name: string, known: readonly string[]): string =>
  didYouMean(name, known) || `: known are ${known.join(', ')}`;
