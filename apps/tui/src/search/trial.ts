import { ComparisonVerdict, type JobResult } from '@flashcore/shared/contract';
import {
  askedVariant,
  championSpeedup,
  evaluationOf,
  passedShapes,
  stoodHeldOut,
  type Evaluation,
} from './evaluation.ts';
import type { EndedJob } from './experiment.ts';
import type { Operator } from './protocol.ts';

/**
 * The result of a trial. root: the kernel that the search started from; accepted: correct, and faster than its base by
 * the rule; valid: correct; wrong: built but not correct; not-built: does not compile, or was refused; no-proposal:
 * nothing to build.
 */
type TrialStatus = 'root' | 'accepted' | 'valid' | 'wrong' | 'not-built' | 'no-proposal';

/** A stored trial; its file is written once. */
export interface Trial {
  readonly trial: number;
  readonly status: TrialStatus;
  readonly operator: Operator;
  /** Number of the island that made the trial, from 1; absent in a search with one island, and for the root. */
  readonly island?: number;
  /** The trials that this one was made from. The first one is its base, which it was compared with. */
  readonly parents: readonly number[];
  readonly name: string;
  readonly thought: string;
  readonly parameters: Readonly<Record<string, number>>;
  /** Speed relative to trial 0: the product of the ratios along the bases; 1 if nothing is timed, 0 if not correct. */
  readonly score: number;
  /** The reason why the trial is not better than its base, or by how much it is better. */
  readonly why: string;
  /** Absent if nothing was built. */
  readonly evaluation?: Evaluation;
  readonly tokens?: { readonly input: number; readonly output: number };
  readonly proposerUsd?: number;
  /** Only for the root: the cases that it passed, which every candidate must pass, and its gates. */
  readonly cases?: readonly string[];
  readonly gates?: readonly string[];
}

export type TrialIdentity = Pick<
  Trial,
  'trial' | 'island' | 'operator' | 'parents' | 'name' | 'thought' | 'parameters' | 'tokens' | 'proposerUsd'
>;

export const isRight = ({ status }: Pick<Trial, 'status'>): boolean =>
  status === 'root' || status === 'accepted' || status === 'valid';

/** A trial whose candidate was never built. */
export const failedTrial = (identity: TrialIdentity, status: 'no-proposal' | 'not-built', why: string): Trial => ({
  ...identity,
  status,
  score: 0,
  why,
});

interface JudgeOptions {
  /** Undefined for the root. */
  readonly base: Pick<Trial, 'score'> | undefined;
  /** Cases that the root passed. A candidate must pass all of them. */
  readonly required: readonly string[];
  /** The plan named by the user; empty if there is none. */
  readonly plan: string;
}

/**
 * Judges a trial by its experiment. A candidate with any fault is never accepted, however fast it is. A correct
 * candidate is accepted if the comparison with its base in the same job says FASTER and the held-out shapes, if there
 * are any, do not reject it.
 */
export function judgedTrial(identity: TrialIdentity, ended: EndedJob, { base, required, plan }: JudgeOptions): Trial {
  const evaluation = evaluationOf({ ...ended, required, plan });
  const variant = askedVariant(ended.result);
  if (!evaluation.correct) {
    const status = variant?.build?.succeeded ? 'wrong' : 'not-built';
    const heldOut = variant?.heldOut?.detail;
    return { ...identity, status, score: 0, why: heldOut ?? firstLine(evaluation.text_feedback), evaluation };
  }
  if (!base)
    return {
      ...identity,
      status: 'root',
      score: 1,
      why: '',
      evaluation,
      cases: passedShapes(ended.result),
      gates: gateTexts(ended.result),
    };
  const stood = stoodHeldOut(variant);
  const accepted = isFaster(ended.result) && stood;
  const speedup = championSpeedup(variant) ?? 1;
  return {
    ...identity,
    status: accepted ? 'accepted' : 'valid',
    score: base.score * (stood ? speedup : Math.min(1, speedup)),
    why: [variant?.comparison?.reason ?? 'not compared', variant?.heldOut?.detail].filter(Boolean).join('; '),
    evaluation,
  };
}

const isFaster = (result: JobResult | undefined): boolean =>
  askedVariant(result)?.comparison?.verdict === ComparisonVerdict.FASTER;

const gateTexts = (result: JobResult | undefined): string[] =>
  (askedVariant(result)?.gates ?? []).map(
    ({ title, comparison, target, unit, level }) => `${title} ${comparison} ${target} ${unit} (${level})`,
  );

const firstLine = (text: string): string => text.split('\n', 1)[0]!.slice(0, 300);
