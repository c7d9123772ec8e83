import type { CaseResult, ElementError, ErrorMap } from '@flashcore/shared/contract';
import type { ShapeFields, TensorDtype } from '@flashcore/shared/kernels';
import type { SeededInput, Candidate } from './launchable.ts';
import type { Plain } from './plain.ts';

/** A case to come: inputs and reference may be computed at once. */
export interface PreparedCase {
  kind: { shape: ShapeFields; dtype: TensorDtype };
  inputs: SeededInput[];
}

/** Computes what verifications to come need, in the background: it is answered at once. */
export interface PrepareRequest {
  type: 'prepare';
  cases: PreparedCase[];
}

export interface VerifyRequest {
  type: 'verify';
  candidate: Candidate;
  inputs: SeededInput[];
  /** |out - ref| <= absolute + relative * |ref|. */
  tolerance: { absolute: number; relative: number };
  /**
   * The same candidate, watched: it runs the first input in the candidate's place, for it computes the same bits, and
   * its faults are told besides.
   */
  watched?: Candidate | undefined;
  /** Run the first input twice and compare the bits. */
  checkDeterminism: boolean;
  /** Go on after an input that failed; default: stop there. */
  allInputs?: boolean;
  /**
   * Of so many inputs, from the first, tell tensors, output and reference: they are compared with another
   * implementation.
   */
  tellOutputs: number;
}

/** Runs a candidate once, for its faults only. */
export interface RunOnceRequest {
  type: 'run-once';
  candidate: Candidate;
  input: SeededInput;
}

/** What a kernel was given, what it made of it, and what is right. Bits of the dtype, but for the reference. */
export interface VerifiedOutput {
  dtype: TensorDtype;
  Q: Uint16Array | Uint32Array;
  K: Uint16Array | Uint32Array;
  V: Uint16Array | Uint32Array;
  O: Uint16Array | Uint32Array;
  reference: Float64Array;
  /** Of O against the reference. */
  maxAbsError: number;
  meanAbsError: number;
}

/** The error map but for the CTA's tile, which the manifest says. */
export type ErrorBlocks = Plain<Omit<ErrorMap, 'tileRows'>>;

/** What CaseResult has of a case over all its seeds. */
export interface CaseFigures extends Pick<
  CaseResult,
  | 'seeds'
  | 'maxAbsError'
  | 'meanAbsError'
  | 'rmsError'
  | 'maxRelError'
  | 'p999AbsError'
  | 'mismatches'
  | 'nanCount'
  | 'infCount'
  | 'unwrittenCount'
  | 'elements'
  | 'fp16MaxAbsError'
  | 'deterministic'
  | 'seconds'
> {
  worst?: Plain<ElementError>;
  firstMismatches: Plain<ElementError>[];
  errorMap: ErrorBlocks;
}

/** A case over all its seeds. */
export interface CaseReport {
  figures: CaseFigures;
  /** What was found on each input, in order. */
  inputs: { failed: boolean; maxAbsError: number }[];
  flashAttentionRule: boolean;
  /** Buffers that the kernel changed and must not: "K", "guard bytes after O". */
  modified: string[];
  /** Right at first, and wrong when the bytes before and after the buffers were others: so many elements. */
  straying: number;
  /** The output's norm is less than half of the reference's on some seed. */
  trivialNorm: boolean;
  /** Where the seconds went. */
  kernelSeconds: number;
  referenceSeconds: number;
}
