import type { CaseResult, ElementError, ErrorMap, RoundingError } from '@flashcore/shared/contract';
import type { ProblemCase, TensorDtype } from '@flashcore/shared/kernels';
import type { Executor } from './device.ts';
import type { SeededInput, Candidate } from './launchable.ts';
import type { Plain } from './plain.ts';

/** A case to come: inputs and reference may be computed at once. */
export interface PreparedCase {
  kind: ProblemCase;
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
  /** Of outputs that name a tolerance, by its name. */
  ownTolerances: Readonly<Record<string, VerifyRequest['tolerance']>>;
  /** Also judge the error by what rounding explains, if the reference models rounding. */
  judgeRounding: boolean;
  /** Runs the problem's reference.cpp; undefined if the built-in oracle covers the problem. */
  ownReference?: Executor | undefined;
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
  inputs: Readonly<Record<string, Uint16Array | Uint32Array>>;
  output: Uint16Array | Uint32Array;
  reference: Float64Array;
  /** Of the output against the reference. */
  maxAbsError: number;
  meanAbsError: number;
}

/** The error map but for the CTA's tile, which the manifest says. */
export type ErrorBlocks = Plain<Omit<ErrorMap, 'tileRows'>>;

/** What CaseResult has of an output over all its seeds. */
export interface OutputFigures extends Pick<
  CaseResult,
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
> {
  /**
   * The input whose worst 16 rows of a head come closest to the limit or exceed it most; undefined if the reference
   * does not model the output's rounding.
   */
  rounding?: Plain<RoundingError> | undefined;
  worst?: Plain<ElementError>;
  firstMismatches: Plain<ElementError>[];
  errorMap: ErrorBlocks;
}

export interface OutputReport {
  name: string;
  dtype: TensorDtype;
  /** The name of its own tolerance. */
  tolerance: string | undefined;
  figures: OutputFigures;
  /** The error is more than rounding explains, where that was to be judged. */
  beyondRounding: boolean;
  /** Its norm is less than half of the reference's on some seed. */
  trivialNorm: boolean;
}

/** A case over all its seeds. */
export interface CaseReport {
  /** What CaseResult has of all outputs together. */
  figures: Pick<CaseResult, 'seeds' | 'fp16MaxAbsError' | 'deterministic' | 'seconds'>;
  /** In the problem's order. */
  outputs: [OutputReport, ...OutputReport[]];
  /** What was found on each input, in order. */
  inputs: { failed: boolean; maxAbsError: number; roundingRatio: number }[];
  /** Undefined if plain attention does not apply to the case. */
  flashAttentionRule: boolean | undefined;
  /** Buffers that the kernel changed and must not: "K", "guard bytes after O". */
  modified: string[];
  /** Right at first, and wrong when the bytes before and after the buffers were others: so many elements. */
  straying: number;
  /** Where the seconds went. */
  kernelSeconds: number;
  referenceSeconds: number;
}
