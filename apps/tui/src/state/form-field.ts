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
  readonly chosen: number;
  /** What was typed in place of a choice; absent on fields that take only choices. */
  readonly typed?: string;
}

/** The choice that leaves it to the runner. */
export const AS_USUAL = 'as usual';
/** The choice that there is to be none. */
export const NONE = 'none';

/** What a field is set to: what was typed, else the choice; a kernel is always one of the choices. */
export const valueOf = ({ id, choices, chosen, typed = '' }: FormField): string =>
  typed === '' || id === 'kernel' ? (choices[chosen] ?? '') : typed;

/** Choices that have what was typed, in any case of letters; all where nothing was. */
export function matchingChoices({ choices, typed = '' }: Pick<FormField, 'choices' | 'typed'>): readonly string[] {
  const wanted = typed.toLowerCase();
  return wanted === '' ? choices : choices.filter((choice) => choice.toLowerCase().includes(wanted));
}

/** Shapes as typed, several with commas. Errors: INVALID_REQUEST of parseShape. */
export const shapesOf = (text: string): Shape[] =>
  text
    .split(',')
    .map((shape) => shape.trim())
    .filter((shape) => shape !== '')
    .map(parseShape);
