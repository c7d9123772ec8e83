import type { Shape } from '@flashcore/shared/contract';
import { parseCase } from '@flashcore/shared/kernels';

/** One field of the form that sets up a run. */
export interface FormField {
  /** Id of the field: "kernel", "phases", "param:NAME", "config", "shape", "seeds" … */
  readonly id: string;
  readonly label: string;
  readonly about: string;
  /** Meaning of each choice, if `about` does not say it. */
  readonly aboutChoices?: readonly string[];
  readonly choices: readonly string[];
  /** The value that a run uses if AS_USUAL is chosen. */
  readonly usual?: Usual;
  readonly chosen: number;
  /** True for a parameter that a search over variants leaves at its default. */
  readonly keepsInSearch?: boolean;
  /** Names of the problem's cases that the field takes; undefined if only the runner knows them. */
  readonly caseNames?: readonly string[];
  /** Typed text that replaces the choice; absent on fields that take only choices. */
  readonly typed?: string;
  /** Length of the typed text after the cursor, as in InputLine. */
  readonly after?: number;
}

/** The value that a run uses if the choice is left to the runner. If the plan decides it, the values by plan name. */
export type Usual = string | Readonly<Record<string, string>>;

/** The choice that leaves the value to the runner. */
export const AS_USUAL = 'as usual';
/** The choice for no value. */
export const NONE = 'none';
export const OFF = 'off';
export const ON = 'on';

/**
 * Value of a field: the typed text or, without one, the choice. The value of the kernel field is always one of the
 * choices.
 */
export const valueOf = ({ id, choices, chosen, typed = '' }: FormField): string =>
  typed === '' || id === 'kernel' ? (choices[chosen] ?? '') : typed;

/** True if the kernel was typed as the path of a folder rather than as part of a name. */
export const isPath = (typed: string): boolean => /^[.~]|\//.test(typed);

/** True if the field has a typed text instead of a choice, and not one that finds a kernel among the choices. */
export const isTyped = ({ id, typed = '' }: Pick<FormField, 'id' | 'typed'>): boolean =>
  typed !== '' && (id !== 'kernel' || isPath(typed));

/** Choices that contain the typed text, ignoring case; all of them if nothing was typed. */
export function matchingChoices({ choices, typed = '' }: Pick<FormField, 'choices' | 'typed'>): readonly string[] {
  const wanted = typed.toLowerCase();
  return wanted === '' ? choices : choices.filter((choice) => choice.toLowerCase().includes(wanted));
}

/** Separates shapes. A comma followed by `NAME=` belongs to the shape before it. */
const BETWEEN_SHAPES = /,(?!\s*[A-Za-z_]\w{0,31}=)/;

/** Parses typed shapes, separated by commas. Errors: INVALID_REQUEST of parseCase. */
export const shapesOf = (text: string): Shape[] =>
  text
    .split(BETWEEN_SHAPES)
    .map((shape) => shape.trim())
    .filter((shape) => shape !== '')
    .map(parseCase);

export type Action = 'run' | 'build' | 'verify' | 'bench' | 'profile' | 'tune';

export const ACTIONS: readonly Action[] = ['run', 'build', 'verify', 'bench', 'profile', 'tune'];

/** The command that a form runs. */
export function actionOf({ fields }: { readonly fields: readonly FormField[] }): Action {
  const phases = fields.find(({ id }) => id === 'phases');
  return ACTIONS.find((name) => phases !== undefined && name === valueOf(phases)) ?? 'run';
}
