import type { CaseResult, ElementError, ErrorMap, RoundingError, Plain } from '@flashcore/shared/contract';
import type { Problem, ProblemCase, ProblemMutant, TensorDtype } from '@flashcore/shared/kernels';
import type { Executor } from './device.ts';
import type { SeededInput, Candidate } from './launchable.ts';

/** An upcoming case, whose inputs and reference may be computed already. */
export interface PreparedCase {
  kind: ProblemCase;
  inputs: SeededInput[];
  /** The value that `reportPlain` will have in the request for this case. */
  reportPlain: boolean;
}

/** Computes inputs and references of upcoming verifications in the background. The reply comes at once. */
export interface PrepareRequest {
  type: 'prepare';
  cases: PreparedCase[];
}

/** How a request's outputs are judged. */
export interface JudgementRules {
  /** |out - ref| <= absolute + relative * |ref|. */
  tolerance: { absolute: number; relative: number };
  /** Tolerances by name, for outputs that name one. */
  ownTolerances: Readonly<Record<string, JudgementRules['tolerance']>>;
  /** Also judge the error by what rounding explains, if the reference models rounding. */
  judgeRounding: boolean;
  /** Command that runs the problem's reference.cpp; undefined if the built-in oracle covers the problem. */
  ownReference?: Executor | undefined;
}

export interface VerifyRequest extends JudgementRules {
  type: 'verify';
  candidate: Candidate;
  inputs: SeededInput[];
  /**
   * The same candidate, instrumented to detect more faults. It runs the first input in the candidate's place, because
   * it computes the same bits.
   */
  watched?: Candidate | undefined;
  /** Run the first input twice and compare the bits. */
  checkDeterminism: boolean;
  /** Continue after a failed input; by default verification stops there. */
  allInputs?: boolean;
  /**
   * Report the error of plain attention, and judge by FlashAttention's rule. Otherwise plain attention is computed only
   * for an output that exceeds the limit of rounding, because a large error of plain attention raises that limit.
   */
  reportPlain: boolean;
  /** The problem, if a wrong output is to be compared with its mutants; of a large case, the worst head is. */
  likeMutantsOf?: Problem | undefined;
  /**
   * Report tensors, output and reference for this many inputs, from the first. They are compared with another
   * implementation.
   */
  tellOutputs: number;
}

/** Runs a candidate once, only to find its faults. */
export interface RunOnceRequest {
  type: 'run-once';
  candidate: Candidate;
  input: SeededInput;
}

/** A kernel's inputs, its output and the right answer. All but the reference are bits of the dtype. */
export interface VerifiedOutput {
  dtype: TensorDtype;
  inputs: Readonly<Record<string, Uint8Array | Uint16Array | Uint32Array>>;
  output: Uint8Array | Uint16Array | Uint32Array;
  reference: Float64Array;
  /** Error of the output against the reference. */
  maxAbsError: number;
  meanAbsError: number;
}

/** The error map without the CTA's tile, which comes from the manifest. */
export type ErrorBlocks = Plain<Omit<ErrorMap, 'tileRows'>>;

/** The fields of CaseResult that belong to one output, over all its seeds. */
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
  /** Error of `worst` as a share of its limit; absent if it is not finite. */
  worstOfLimit?: number;
  firstMismatches: Plain<ElementError>[];
  errorMap: ErrorBlocks;
}

/** Most floating-point operations of a head of a large case that the oracle computes for each mutant. */
export const MUTANTS_FLOPS_OF_HEAD = 3e8;

/**
 * The heads, rows and columns of an output that are wrong; rows and columns in any batch and head. A list is empty if
 * it would be too long to send.
 */
export interface MismatchPlaces {
  /** Batch times the number of heads, plus the head. */
  heads: readonly number[];
  rows: readonly number[];
  columns: readonly number[];
  /** The output's extents. */
  ofHeads: number;
  ofRows: number;
  ofColumns: number;
}

/** Least and most of the factors; equal if it is one for all elements. */
export interface Factors {
  least: number;
  most: number;
}

/** The few keys that an attention kernel treats wrongly. */
export interface WrongKeys {
  /** In order. */
  keys: readonly number[];
  /** Number of all keys. */
  ofKeys: number;
  /** How the kernel changes their weights; undefined if no simple change explains the output. */
  change?:
    | { /** They have no weight. */ kind: 'left-out' }
    | { /** They should have no weight, and have some. */ kind: 'hidden' }
    | { /** Their weights or logits are the right ones times a factor. */ kind: 'weights' | 'logits'; factor: number }
    | undefined;
}

export interface OutputReport {
  name: string;
  dtype: TensorDtype;
  /** The name of the output's own tolerance. */
  tolerance: string | undefined;
  figures: OutputFigures;
  /** On any seed; undefined if nothing is wrong or the output is too large. */
  mismatchPlaces: MismatchPlaces | undefined;
  /** Set if the first wrong output is the right one times a factor, or each of its rows times one. */
  factors?: Factors | undefined;
  /** Set if wrong weights of a few keys explain the first output of attention. */
  wrongKeys?: WrongKeys | undefined;
  /** Whether the error is larger than rounding explains, if the request asked for that check. */
  beyondRounding: boolean;
  /** Whether the output's norm is less than half of the reference's for some seed. */
  trivialNorm: boolean;
}

/** A case over all its seeds. */
export interface CaseReport {
  /** The fields of CaseResult that belong to all outputs together. */
  figures: Pick<CaseResult, 'seeds' | 'fp16MaxAbsError' | 'deterministic' | 'seconds'>;
  /** In the problem's order. */
  outputs: [OutputReport, ...OutputReport[]];
  /** Whether the case is attention, whose findings name its parts. */
  isAttention: boolean;
  /** Results for each input, in order. */
  inputs: { failed: boolean; maxAbsError: number; roundingRatio: number }[];
  /** Undefined if plain attention does not apply to the case. */
  flashAttentionRule: boolean | undefined;
  /** Whether a wrong output was too large to look for the mistake, even in its worst head alone. */
  tooLargeToExplain?: boolean | undefined;
  /** Mutants of the problem whose answer the first wrong output is. */
  likeMutants?: Pick<ProblemMutant, 'name' | 'about'>[] | undefined;
  /** Buffers that the kernel changed although it must not: "K", "guard bytes after O". */
  modified: string[];
  /** Number of elements that were right at first, but wrong when the bytes before and after the buffers changed. */
  straying: number;
}

/** Input of worker/check-problem.ts, as JSON. */
export interface CheckProblemJob {
  /** An installed problem. */
  problem: string;
  /** The text of the problem's cases.yaml, and the path that messages show. */
  cases: { text: string; path: string };
  dtype: TensorDtype;
  referenceLibrary: string;
  /** Command that runs the problem's reference.cpp; undefined if the built-in oracle covers the problem. */
  ownReference?: Executor | undefined;
  /** Seed of the inputs, hexadecimal. */
  seed: string;
  /** Profile of cases.yaml. */
  tolerance: string;
  /** True if an output is also wrong when its error is larger than rounding explains. */
  judgeRounding: boolean;
}

/** `same` means that the mutated answer has the same bits as the right one. */
export type MutantCell = 'found' | 'missed' | 'same';

/** Where a right answer, rounded to the dtype, is judged wrong. */
export interface WrongedAnswer {
  case: string;
  distribution: string;
  /** The output in which it exceeds the largest number of the dtype; undefined if it fits. */
  beyond?: { output: string; dtype: TensorDtype } | undefined;
}

/** Cases and distributions that are combined with each other. */
export interface CheckedGroup {
  name: 'parity' | 'probes';
  cases: string[];
  distributions: string[];
  /** Indexed by mutant, case and distribution. */
  cells: MutantCell[][][];
  wronged: WrongedAnswer[];
}

/** A symmetry of problem.yaml. */
export interface CheckedSymmetry {
  /** The change and the tensors that it changes, as text. */
  name: string;
  /** File, line and key. */
  place?: string | undefined;
  /** The cases that it was tested on; empty if it changes no case. */
  cases: string[];
  /** Undefined if it holds. */
  fault?:
    /** The first element that differs from what the symmetry promises. */
    | { case: string; output: string; index: number[]; want: number; got: number }
    /** The reference gave no answer to the changed inputs. */
    | { case: string; said: string }
    | undefined;
}

export interface ProblemCheck {
  problem: string;
  dtype: TensorDtype;
  /** Profile of cases.yaml. */
  tolerance: string;
  mutants: { name: string; about: string; place?: string | undefined }[];
  /** Mutants that change nothing in this dtype: those that only round or clamp a tensor to its own. */
  leftOut: string[];
  groups: CheckedGroup[];
  symmetries: CheckedSymmetry[];
}
