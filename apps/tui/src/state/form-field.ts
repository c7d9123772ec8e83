import type { Shape } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';

/** What may be chosen before a run, a field a thing. */
export interface FormField {
  /** "kernel", "phases", "param:NAME", "config", "shape", "seeds" …: one of a form's fields. */
  readonly id: string;
  readonly label: string;
  readonly about: string;
  /** What each choice means, where that is not in `about`. */
  readonly aboutChoices?: readonly string[];
  readonly choices: readonly string[];
  /** What AS_USUAL stands for. */
  readonly usual?: Usual;
  readonly chosen: number;
  /** What was typed in place of a choice; absent on fields that take only choices. */
  readonly typed?: string;
}

/** The value that a run uses where the choice is left to the runner; where the plan decides, by the plan's name. */
export type Usual = string | Readonly<Record<string, string>>;

/** The choice that leaves it to the runner. */
export const AS_USUAL = 'as usual';
/** The choice that there is to be none. */
export const NONE = 'none';

/** What a field is set to: what was typed, else the choice; a kernel is always one of the choices. */
export const valueOf = ({ id, choices, chosen, typed = '' }: FormField): string =>
  typed === '' || id === 'kernel' ? (choices[chosen] ?? '') : typed;

/** Whether a kernel was typed as the path of a folder, and not as a part of a name. */
export const isPath = (typed: string): boolean => /^[.~]|\//.test(typed);

/** Choices that have what was typed, in any case of letters; all where nothing was. */
export function matchingChoices({ choices, typed = '' }: Pick<FormField, 'choices' | 'typed'>): readonly string[] {
  const wanted = typed.toLowerCase();
  return wanted === '' ? choices : choices.filter((choice) => choice.toLowerCase().includes(wanted));
}

/** A comma that `NAME=` follows belongs to the shape before it. */
const BETWEEN_SHAPES = /,(?!\s*[A-Za-z_]\w{0,31}=)/;

/** Shapes as typed, several with commas. Errors: INVALID_REQUEST of parseShape. */
export const shapesOf = (text: string): Shape[] =>
  text
    .split(BETWEEN_SHAPES)
    .map((shape) => shape.trim())
    .filter((shape) => shape !== '')
    .map(parseShape);
