/**
 * Determines which mutants of a problem its cases find, and whether its symmetries hold. The outputs are judged like
 * those of kernels.
 */
import {
  DTYPES,
  dtypeOfTensor,
  type TensorDtype,
  formatShape,
  outputTolerances,
  problemCase,
  toleranceProfile,
  valuesOf,
  type Cases,
  type Distribution,
  type Problem,
  type ProblemCase,
  type ProblemMutant,
} from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { Answers, Reference } from '../driver/reference.ts';
import { outputsOf, tensorOf, type TensorsByName } from '../driver/tensor-bits.ts';
import type { CheckedGroup, CheckProblemJob, MutantCell, ProblemCheck, WrongedAnswer } from '../messages/verifying.ts';
import { drawInputs } from './inputs.ts';
import {
  answersOf,
  compareOutputs,
  isWrong,
  judgeOutputs,
  roundingLimitOf,
  saturated,
  yardstickFor,
  type JudgementLimits,
} from './judgement.ts';
import { mutatedOutputs, mutatedQuestion } from './mutate.ts';
import type { Yardstick } from './reference-book.ts';
import { checkSymmetries } from './symmetry-check.ts';
import { POISONS } from './verify-case.ts';

interface CheckOptions extends Omit<CheckProblemJob, 'problem' | 'cases' | 'referenceLibrary'> {
  reference: Reference;
  /** Called before each case. */
  onCase?: (text: string) => void;
}

/**
 * Judges every mutant on the parity cases, on each distribution, and on the probes, and tests the symmetries. Errors:
 * INVALID_MANIFEST for a mutant whose values no case can have.
 */
export async function checkProblem(problem: Problem, cases: Cases, options: CheckOptions): Promise<ProblemCheck> {
  const { absolute, relative } = toleranceOf(cases, options);
  const limits: JudgementLimits = {
    tolerance: { absolute, relative },
    ownTolerances: outputTolerances(problem, cases, options.dtype),
    judgeRounding: options.judgeRounding,
  };
  const [mutants, leftOut] = [true, false].map((wanted) =>
    problem.mutants.filter((mutant) => changes(mutant, problem, options.dtype) === wanted),
  ) as [ProblemMutant[], ProblemMutant[]];
  const groups: CheckedGroup[] = [];
  for (const [name, shapes, distributions] of [
    ['parity', cases.sets.parity, Object.values(cases.distributions)],
    ['probes', cases.probes.shapes, cases.probes.distributions],
  ] as const) {
    const group: CheckedGroup = {
      name,
      cases: shapes.map((shape) => formatShape(shape)),
      distributions: distributions.map((rule) => rule.name),
      cells: mutants.map(() => []),
      wronged: [],
    };
    for (const [index, shape] of shapes.entries()) {
      options.onCase?.(`${name} ${group.cases[index]}`);
      for (const rows of group.cells) rows.push([]);
      for (const rule of distributions) {
        const judge = new CaseJudge(problem, { values: valuesOf(shape), rule, limits, options });
        const wronged = await judge.wrongedAnswer();
        if (wronged) group.wronged.push({ case: group.cases[index]!, distribution: rule.name, ...wronged });
        for (const [at, mutant] of mutants.entries()) group.cells[at]!.at(-1)!.push(await judge.cellOf(mutant));
      }
    }
    groups.push(group);
  }
  return {
    problem: problem.id,
    dtype: options.dtype,
    tolerance: options.tolerance,
    mutants: mutants.map(({ name, about, place }) => ({ name, about, place })),
    leftOut: leftOut.map(({ name }) => name),
    groups,
    symmetries: await checkSymmetries(problem, cases, options),
  };
}

/**
 * Whether the mutant can change a tensor of this dtype. A mutant that rounds to the dtype itself, or clamps at or above
 * the dtype's largest number, can't.
 */
function changes({ change }: ProblemMutant, { tensors }: Problem, dtype: TensorDtype): boolean {
  const tensor = change.kind === 'set' ? undefined : tensors.find(({ name }) => name === change.tensor);
  const found = tensor && dtypeOfTensor(tensor, dtype);
  if (found === undefined || found === 'int32') return true;
  if (change.kind === 'clamp') return change.value < DTYPES[found].format.largest;
  return change.kind !== 'round' || change.to !== found;
}

function toleranceOf(cases: Cases, { dtype, tolerance }: CheckOptions): JudgementLimits['tolerance'] {
  const { atol, rtol } = toleranceProfile(cases, tolerance, dtype);
  return { absolute: atol, relative: rtol };
}

interface JudgedCase {
  values: ProblemCase['values'];
  rule: Distribution;
  limits: JudgementLimits;
  options: CheckOptions;
}

/** A right answer with its case, inputs and yardstick. */
interface Right {
  kind: ProblemCase;
  inputs: TensorsByName;
  answers: Answers;
  outputs: TensorsByName;
  yardstick: Yardstick | undefined;
}

/** One case on one distribution. An optional output is included only for a mutant of that output. */
class CaseJudge {
  readonly #problem: Problem;
  readonly #of: JudgedCase;
  readonly #rights = new Map<string, Promise<Right>>();

  constructor(problem: Problem, of: JudgedCase) {
    this.#problem = problem;
    this.#of = of;
  }

  /** Set if the judge calls the right answer wrong. */
  async wrongedAnswer(): Promise<Pick<WrongedAnswer, 'beyond'> | undefined> {
    const right = await this.#right('');
    if (!this.#isFound(right, right.outputs)) return undefined;
    const beyond = outputsOf(right.kind).find(({ name, dtype }) => isBeyond(right.answers.get(name)!.want, dtype));
    return { beyond: beyond && { output: beyond.name, dtype: beyond.dtype } };
  }

  async cellOf(mutant: ProblemMutant): Promise<MutantCell> {
    const { change } = mutant;
    const tensor = change.kind === 'set' ? undefined : this.#problem.tensors.find(({ name }) => name === change.tensor);
    const right = await this.#right(tensor?.optional ? tensor.name : '');
    const { reference, ownReference: own } = this.#of.options;
    const question = mutatedQuestion(this.#problem, mutant, right);
    const computed = question
      ? roundedOutputs(right.kind, await answersOf(reference, question.kind, { inputs: question.inputs, own }))
      : right.outputs;
    const outputs = mutatedOutputs(mutant, right.kind, { outputs: computed, poison: POISONS[0] });
    if (Object.entries(outputs).every(([name, bits]) => sameBits(bits, entryOf(right.outputs, name)!))) return 'same';
    return this.#isFound(right, outputs) ? 'found' : 'missed';
  }

  /** The right answer, including the optional output of this name. */
  #right(optional: string): Promise<Right> {
    const known = this.#rights.get(optional);
    if (known) return known;
    const right = this.#computeRight(optional);
    this.#rights.set(optional, right);
    return right;
  }

  async #computeRight(optional: string): Promise<Right> {
    const { values, rule, options } = this.#of;
    const kind = problemCase(this.#problem, values, options.dtype, new Set([optional]));
    const inputs = drawInputs(kind, { seed: options.seed, rule }, options.reference);
    const answers = saturated(kind, await answersOf(options.reference, kind, { inputs, own: options.ownReference }));
    return {
      kind,
      inputs,
      answers,
      outputs: roundedOutputs(kind, answers),
      yardstick: yardstickFor(options.reference, kind, { inputs, answers }),
    };
  }

  #isFound({ kind, answers, yardstick }: Right, tensors: TensorsByName): boolean {
    const {
      limits,
      options: { reference },
    } = this.#of;
    const outputs = outputsOf(kind);
    const comparisons = compareOutputs(reference, tensors, { outputs, answers, limits, poison: POISONS[0] });
    // The looser limit of kernels that round logits: a mutant counts as found only if it exceeds even this limit.
    const roundingLimit = roundingLimitOf(yardstick, { dtype: kind.dtype, accumulate: 'fp16' });
    return judgeOutputs(reference, tensors, { outputs, answers, comparisons, roundingLimit, limits }).some(isWrong);
  }
}

const isBeyond = (want: Float64Array, dtype: TensorDtype): boolean =>
  want.some((value) => Number.isFinite(value) && Math.abs(value) > DTYPES[dtype].format.largest);

const roundedOutputs = (kind: ProblemCase, answers: Answers): TensorsByName =>
  Object.fromEntries(
    outputsOf(kind).map(({ name, dtype }) => [name, tensorOf(Float32Array.from(answers.get(name)!.want), dtype)]),
  );

const sameBits = (a: TensorsByName[string], b: TensorsByName[string]): boolean =>
  Buffer.compare(Buffer.from(a.buffer), Buffer.from(b.buffer)) === 0;
