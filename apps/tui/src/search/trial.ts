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
 * How a trial ended. root: the kernel that the search began with; accepted: right, and faster than its base by the
 * rule; valid: right; wrong: built, and not right; not-built: does not compile, or was refused; no-proposal: nothing to
 * build.
 */
export type TrialStatus = 'root' | 'accepted' | 'valid' | 'wrong' | 'not-built' | 'no-proposal';

/** A trial as it is kept: one file, written once. */
export interface Trial {
  readonly trial: number;
  readonly status: TrialStatus;
  readonly operator: Operator;
  /** Trials that it was made from; the first is its base, with which it was compared. */
  readonly parents: readonly number[];
  readonly name: string;
  readonly thought: string;
  readonly parameters: Readonly<Record<string, number>>;
  /** Times as fast as trial 0: the ratios over its bases multiplied; 1 where nothing is timed. 0: not right. */
  readonly score: number;
  /** Why it is not better, or what it is better by. */
  readonly why: string;
  /** Absent where nothing was built. */
  readonly evaluation?: Evaluation;
  readonly tokens?: { readonly input: number; readonly output: number };
  readonly proposerUsd?: number;
  /** Of the root: the cases that it passed, which every candidate must compute, and the gates. */
  readonly cases?: readonly string[];
  readonly gates?: readonly string[];
}

export type TrialIdentity = Pick<
  Trial,
  'trial' | 'operator' | 'parents' | 'name' | 'thought' | 'parameters' | 'tokens' | 'proposerUsd'
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

export interface JudgeOptions {
  /** Undefined for the root. */
  readonly base: Pick<Trial, 'score'> | undefined;
  /** Cases that the root passed: a candidate must compute every one of them. */
  readonly required: readonly string[];
  /** The plan that the search was asked for by name; empty: none. */
  readonly plan: string;
}

/**
 * What an experiment makes of a trial. Parity is a hard gate: a candidate with anything wrong is never accepted,
 * however fast it is; one that is right is accepted when the comparison with its base in the same job says FASTER, and
 * shapes that the runner keeps to itself, where it has any, say nothing against it.
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
