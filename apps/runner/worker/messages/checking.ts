import type { TensorDtype } from '@flashcore/shared/kernels';
import type { Executor } from './device.ts';

/** Input of worker/check-problem.ts, as JSON. */
export interface CheckProblemJob {
  /** An installed problem. */
  problem: string;
  /** Its cases.yaml; texts show the path. */
  cases: { text: string; path: string };
  dtype: TensorDtype;
  referenceLibrary: string;
  /** Runs the problem's reference.cpp; undefined if the built-in oracle covers the problem. */
  ownReference?: Executor | undefined;
  /** Seed of the inputs, hexadecimal. */
  seed: string;
  /** Also judge by what rounding explains, like the tolerance `parity`. */
  judgeRounding: boolean;
}

/** `same` means that the mutated answer has the same bits as the right one. */
export type MutantCell = 'found' | 'missed' | 'same';

/** Cases and distributions that are combined with each other. */
export interface CheckedGroup {
  name: 'parity' | 'probes';
  cases: string[];
  distributions: string[];
  /** Indexed by mutant, case and distribution. */
  cells: MutantCell[][][];
  /** Right answers, rounded to the dtype, that were judged wrong. */
  wronged: { case: string; distribution: string }[];
}

export interface ProblemCheck {
  problem: string;
  dtype: TensorDtype;
  mutants: { name: string; about: string }[];
  groups: CheckedGroup[];
}
