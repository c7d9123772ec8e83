/** The description of a foreign Python program's problem, obtained by running the program in a sandbox. */
import { MAX_EXTENT } from '@flashcore/shared/kernels';
import * as z from 'zod';
import { NotImportable } from './attention-forms.ts';

/** A hostile program can print any answer, so an answer may contain only names, formulas and numbers in these forms. */
const identifier = z.string().regex(/^(?!__)[A-Za-z_]\w{0,31}$/, 'must be a C identifier of at most 32 characters');
const stateName = z.string().regex(/^\w{1,64}(\.\w{1,64}){0,8}$/, 'must be the name of a weight');
const formula = z.string().regex(/^[\w +\-*/(),]{1,200}$/, 'must be a formula');
const extents = z.record(identifier, z.int().min(1).max(MAX_EXTENT));
const size = z.number().min(0).max(Number.MAX_VALUE);
const TENSOR_KINDS = ['input', 'weight', 'output'] as const;
/** Kinds of inputs, each with its meaning. */
export const INPUT_ABOUTS = {
  normal: 'N(0, 1) everywhere',
  positive: 'inputs from 1/2 to 2',
  few: 'inputs of -1, 0 and 1',
  outlier_elements: 'some elements 8 times as large',
} as const;
type InputKind = keyof typeof INPUT_ABOUTS;
const inputKind = z.enum(Object.keys(INPUT_ABOUTS) as [InputKind, ...InputKind[]]);

const described = z.strictObject({
  axes: z
    .array(z.strictObject({ name: identifier, value: z.int().min(1), draw: z.enum(['count', 'length', 'width']) }))
    .min(1)
    .max(8),
  tensors: z
    .array(z.strictObject({ kind: z.enum(TENSOR_KINDS), name: stateName, dims: z.array(formula).min(1).max(8) }))
    .max(128),
  cases: z.array(extents).min(1).max(8),
  canonical: extents,
  /** The problem's own cases, if it names any. */
  named: z.array(extents).max(32).optional(),
  /**
   * For GPU MODE: the number of the test or benchmark that gives the arguments, and the inputs' positions among the
   * tensors.
   */
  spec: z.int().min(0).max(1024).optional(),
  places: z.array(z.int().min(0).max(128)).max(128).optional(),
  /** Inputs without a visible effect on the outputs. */
  ignored: z.array(identifier).max(64),
  /** Distributions of inputs on which all outputs are finite; the first one is the default. */
  distributions: z.array(inputKind).min(1),
  /** Weights are this factor times N(0, 1). */
  weightScale: z
    .number()
    .min(2 ** -40)
    .max(2 ** 40),
  /** The smallest root mean square of an output, and the largest value in one. */
  rms: size.refine((value) => value > 0, 'must be a positive number'),
  largest: size,
  /** The largest difference between a run in fp32 and one in fp64. */
  roundingError: size,
});
const MOST_REASON = 400;
const refused = z.strictObject({ refused: z.string().transform((reason) => reason.slice(0, MOST_REASON)) });

export type DescribedProgram = z.output<typeof described>;

/**
 * Reads the sandbox's line about a program. Errors: NotImportable, which says what the program lacks or what is wrong
 * in the answer.
 */
export function readDescription(line: string | undefined): DescribedProgram {
  const answer = jsonOf(line);
  const reason = refused.safeParse(answer);
  if (reason.success) throw new NotImportable(reason.data.refused);
  const read = described.safeParse(answer);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw new NotImportable(`${issue!.path.join('.') || 'the program'}: ${issue!.message}`);
}

function jsonOf(line: string | undefined): unknown {
  try {
    return JSON.parse(line ?? '');
  } catch {
    throw new NotImportable('the program: gave no answer in the sandbox');
  }
}
