/** Drafts a kernel.yaml for a function in Triton: facts that the Python contains are filled in, the rest is marked. */
import { entryOf } from '../text/entry-of.ts';
import { DEFAULT_PROBLEM, installedProblem } from '../problems/installed-problems.ts';
import type { Problem } from '../problems/problem.ts';
import { TO_FILL_IN, type DraftOptions } from './ptx-draft.ts';

/** The answer of tools/read_triton.py. */
export interface TritonFunction {
  readonly entry: string;
  readonly python: string;
  readonly parameters: readonly TritonParameter[];
  /** Integers that the autotune decorator tries, by name. */
  readonly options: Readonly<Record<string, readonly number[]>>;
}

interface TritonParameter {
  readonly name: string;
  readonly constexpr: boolean;
  readonly default: number | boolean | null;
}

const DEFAULT_WARPS = 4;

export function draftOfTriton(
  { entry, parameters, options }: TritonFunction,
  { id, source, problem = DEFAULT_PROBLEM }: DraftOptions,
): string {
  const tuned = Object.entries(options).filter(([, values]) => values.length > 1);
  const fixed = { NUM_WARPS: [DEFAULT_WARPS], ...options };
  const untold = parameters.filter(({ name, constexpr }) => constexpr && entryOf(options, name) === undefined);
  return `${[
    `id: ${id}`,
    `title: A kernel in Triton ${TO_FILL_IN}: what it is, in a few words`,
    `lesson: nothing yet ${TO_FILL_IN}: what it teaches`,
    ...(problem === DEFAULT_PROBLEM ? [] : [`problem: ${problem}`]),
    `source: ${source}`,
    'language: triton',
    'min_arch: sm_80',
    `math: { inputs: fp16, accumulate: fp32 } ${TO_FILL_IN}: what the code does`,
    ...(tuned.length > 0 ? ['parameters:'] : []),
    ...tuned.map(
      ([name, values]) =>
        `  ${name}: { values: [${values.join(', ')}], default: ${values[0]}, about: "of the autotune decorator" }`,
    ),
    'constants:',
    ...Object.entries(fixed).flatMap(([name, values]) => (values.length === 1 ? [`  ${name}: ${values[0]}`] : [])),
    ...untold.map(
      ({ name, default: value }) =>
        `  ${name}: ${Number(value ?? 0)} ${TO_FILL_IN}: its value, or a parameter with several`,
    ),
    'launches:',
    `  - entry: ${entry}`,
    `    grid: [1, 1, 1] ${TO_FILL_IN}: how many CTAs, for example ["ceil(S / BLOCK_M)", "B * H", 1]`,
    '    block: ["32 * NUM_WARPS", 1, 1]',
    '    arguments:',
    ...parameters.filter(({ constexpr }) => !constexpr).map(({ name }) => argumentOf(name, installedProblem(problem))),
    'toggle: "compiled by Triton, which has no switch for tensor cores"',
  ].join('\n')}\n`;
}

/** Guesses by the last part of the name: desc_q is Q, sm_scale is scale. */
function argumentOf(name: string, { tensors, axes, attributes }: Problem): string {
  const known = [...tensors, ...axes, ...attributes].map((each) => each.name);
  const last = name.split('_').at(-1)!.toLowerCase();
  const guess = known.includes(name) ? name : known.find((each) => each.toLowerCase() === last);
  const about = `${TO_FILL_IN}: ${name}`;
  return guess === undefined
    ? `      - null ${about}; a tensor, a workspace, an axis, an attribute, or { int32: expression }`
    : `      - ${guess} ${about}`;
}
