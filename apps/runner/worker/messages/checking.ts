import type { TensorDtype } from '@flashcore/shared/kernels';
import type { Executor } from './device.ts';

/** What worker/check-problem.ts is started with, as JSON. */
export interface CheckProblemJob {
  /** An installed problem. */
  problem: string;
  /** Its cases.yaml; texts show the path. */
  cases: { text: string; path: string };
  dtype: TensorDtype;
  referenceLibrary: string;
  /** Runs the problem's reference.cpp; undefined if the built-in oracle covers the problem. */
  ownReference?: Executor | undefined;
  /** Of the inputs, hexadecimal. */
  seed: string;
  /** Judge by what rounding explains too, as the tolerance `parity` does. */
  judgeRounding: boolean;
}

/** `same`: the mutated answer has the bits of the right one. */
export type MutantCell = 'found' | 'missed' | 'same';

/** Cases and distributions that are run with each other. */
export interface CheckedGroup {
  name: 'parity' | 'probes';
  cases: string[];
  distributions: string[];
  /** By mutant, case, distribution. */
  cells: MutantCell[][][];
  /** Right answers, rounded to the dtype, that were called wrong. */
  wronged: { case: string; distribution: string }[];
}

export interface ProblemCheck {
  problem: string;
  dtype: TensorDtype;
  mutants: { name: string; about: string }[];
  groups: CheckedGroup[];
}
