/**
 * Finds the reason why a form can't be run: invalid shapes, shapes that the kernel does not take, seeds that are not
 * numbers.
 */
import { FlashcoreError, type Kernel, type Shape } from '@flashcore/shared/contract';
import {
  DEFAULT_PROBLEM,
  evaluate,
  formatShape,
  parseExpression,
  installedProblem,
  installedProblems,
  isOnlyNamed,
  scopeOfShape,
  valuesOf,
} from '@flashcore/shared/kernels';
import { didYouMean, entryOf } from '@flashcore/shared/text';
import { AS_USUAL, isPath, matchingChoices, shapesOf, valueOf, type FormField } from './form-field.ts';
import type { RunForm } from './run-form.ts';

const MOST_SHAPES = 16;

/** Fields that take a whole number: the noun of the unit, and the bounds. */
const WHOLE_NUMBERS: Partial<Record<string, { noun: string; least: number; most: number }>> = {
  seeds: { noun: 'a number of seeds', least: 1, most: 100 },
  samples: { noun: 'a number of samples', least: 1, most: 1_000_000 },
  registers: { noun: 'registers of a thread', least: 16, most: 255 },
};

interface FieldProblem {
  readonly index: number;
  readonly text: string;
}

/** The fields that prevent a run, with the reasons. */
export const formProblems = (form: RunForm): FieldProblem[] =>
  form.fields.flatMap((field, index) => {
    const text = problemOf(form, field);
    return text === undefined ? [] : [{ index, text }];
  });

/** The first field that prevents a run; undefined if the form can be run. */
export const formProblem = (form: RunForm): FieldProblem | undefined => formProblems(form)[0];

/** The problem with a field; undefined if there is none. */
function problemOf(form: RunForm, field: FormField): string | undefined {
  if (field.id === 'kernel')
    return isPath(field.typed ?? '') || matchingChoices(field).length > 0
      ? undefined
      : `No kernel's name contains "${field.typed ?? ''}"`;
  const text = valueOf(field);
  if (text === AS_USUAL) return undefined;
  const range = entryOf(WHOLE_NUMBERS, field.id);
  if (range !== undefined)
    return /^\d+$/.test(text) && Number(text) >= range.least && Number(text) <= range.most
      ? undefined
      : `"${text}": must be ${range.noun} from ${range.least} to ${range.most}`;
  if (field.id === 'arch' && !field.choices.includes(text))
    return `"${text}": must be one of ${field.choices.slice(1).join(', ')}`;
  return field.id === 'shape' ? shapesProblem(form, field) : undefined;
}

function shapesProblem(form: RunForm, field: FormField): string | undefined {
  try {
    const shapes = shapesOf(valueOf(field));
    if (shapes.length > MOST_SHAPES) return `${shapes.length} shapes: must be at most ${MOST_SHAPES}`;
    const unknown = shapes.filter(isOnlyNamed).find(({ name }) => field.caseNames?.includes(name) === false);
    if (unknown !== undefined) return unknownCase(unknown.name, field);
    // A case that is given only by its name is not checked further, because only the runner knows the case's values.
    const known = shapes.filter((shape) => !isOnlyNamed(shape));
    return known.map((shape) => refusalOf(form, shape)).find((refusal) => refusal !== undefined);
  } catch (error) {
    if (error instanceof FlashcoreError) return error.message;
    throw error;
  }
}

const NAMES_LISTED = 3;

/** A suggestion for a name that no case has: the nearest shape or name that the field accepts. */
function unknownCase(name: string, { choices, caseNames = [] }: FormField): string {
  const example = choices.find((choice) => choice !== AS_USUAL && !caseNames.includes(choice));
  const such = example === undefined ? '' : ` such as ${example}`;
  const listed = caseNames.slice(0, NAMES_LISTED).map((each) => `"${each}"`);
  const more = caseNames.length > NAMES_LISTED ? ` and ${caseNames.length - NAMES_LISTED} more` : '';
  const all = listed.length === 0 ? '; no case has a name' : `; cases are named ${listed.join(', ')}${more}`;
  return `"${name}": must be a shape${such} or a case's name${didYouMean(name, [...choices, ...caseNames]) || all}`;
}

/**
 * The first limit of the manifest that a shape breaks. The runner may refuse other shapes too, because it also knows
 * constants.
 */
function refusalOf({ kernel, fields }: RunForm, shape: Shape): string | undefined {
  const parameters = Object.fromEntries(
    kernel.parameters.map(({ name, defaultValue }) => {
      const field = fields.find(({ id }) => id === `param:${name}`);
      return [name, Number(field === undefined ? defaultValue : valueOf(field))];
    }),
  );
  const scope: Record<string, number> = { ...scopeOf(kernel, shape), ...parameters };
  const broken = kernel.limits.find(({ require }) => {
    const expression = parseExpression(require);
    return expression.names.every((name) => Object.hasOwn(scope, name)) && evaluate(expression, scope) === 0;
  });
  return broken === undefined
    ? undefined
    : `${kernel.kernelId} cannot run ${formatShape(shape)}: it requires ${broken.require}, because ${broken.because}`;
}

/** Values of axes and attributes by name. If the problem is not installed here, derived values are missing. */
const scopeOf = ({ problem }: Kernel, shape: Shape): Record<string, number> =>
  installedProblems().includes(problem || DEFAULT_PROBLEM)
    ? { ...scopeOfShape(installedProblem(problem || DEFAULT_PROBLEM), shape) }
    : { ...valuesOf(shape) };
