/** The choices before a run, from the kernel's manifest and the runner's cases. Pure data, changed by keys. */
import { fieldsOf, type FormContext } from './form-choices.ts';
import { isPath, matchingChoices, type Action, type FormField } from './form-field.ts';
import { choicesOf } from './form-usual.ts';
import { editedLine } from './input-line.ts';
import type { ListedKernel } from './listed-kernel.ts';
import { entryOf } from '@flashcore/shared/text';

export interface RunForm {
  readonly kernel: ListedKernel;
  /** The kernels to choose from, if the form was opened from a problem. */
  readonly among?: readonly ListedKernel[] | undefined;
  readonly fields: readonly FormField[];
  readonly selected: number;
}

/** The form with every field at its default. Running it unchanged runs the kernel as its manifest says. */
export const formOf = (kernel: ListedKernel, context: FormContext): RunForm => ({
  kernel,
  // The kernel is already chosen, so the cursor starts on the next field.
  selected: 1,
  fields: fieldsOf(kernel, context),
  ...(context.among && { among: context.among }),
});

/**
 * The form after the cursor moved by `by` rows, or after the choice of the selected field moved by `change`. A choice
 * replaces typed text.
 */
export function withKeys(form: RunForm, { by = 0, change = 0 }: { by?: number; change?: number }): RunForm {
  const selected = Math.max(0, Math.min(form.fields.length - 1, form.selected + by));
  const fields = form.fields.map((field, index) =>
    index === selected && change !== 0 ? withChange(form, field, change) : field,
  );
  return { ...form, selected, fields };
}

/** Moves to the next choice. If a kernel name was typed, moves to the next kernel that matches. */
function withChange(form: RunForm, field: FormField, change: number): FormField {
  const among = field.id === 'kernel' ? matchingChoices(field) : choicesOf(form, field);
  const place = among.indexOf(field.choices[field.chosen] ?? '');
  const next = among[(place + change + among.length) % Math.max(1, among.length)];
  return {
    ...field,
    chosen: next === undefined ? field.chosen : field.choices.indexOf(next),
    ...(field.typed !== undefined && field.id !== 'kernel' && { typed: '' }),
  };
}

/** The form after a key edited the text of the selected field. A field that takes only choices stays unchanged. */
export function withTyping(form: RunForm, key: string): RunForm {
  const fields = form.fields.map((field, index): FormField => {
    if (index !== form.selected || field.typed === undefined) return field;
    const { text: typed, after = 0 } = editedLine({ text: field.typed, after: field.after ?? 0 }, key);
    // A key that only moves the cursor leaves the choice.
    if (typed === field.typed) return { ...field, after };
    // A typed path is read only when the user leaves the field, because until then it may be incomplete.
    if (field.id !== 'kernel' || isPath(typed)) return { ...field, typed, after };
    const [first] = matchingChoices({ ...field, typed });
    return { ...field, typed, after, chosen: first === undefined ? field.chosen : field.choices.indexOf(first) };
  });
  return { ...form, fields };
}

/** A form for another kernel that keeps the fields which both kernels have. */
export function withKernel(form: RunForm, kernel: ListedKernel, context: FormContext): RunForm {
  const fresh = formOf(kernel, context);
  const fields = fresh.fields.map((field): FormField => {
    const before = form.fields.find(
      ({ id }) => id === field.id && !id.startsWith('param:') && id !== 'config' && id !== 'kernel',
    );
    const chosen = before === undefined ? -1 : field.choices.indexOf(before.choices[before.chosen] ?? '');
    return chosen < 0 ? field : { ...field, chosen, ...(before?.typed !== undefined && { typed: before.typed }) };
  });
  const typedName = form.fields.find(({ id }) => id === 'kernel')?.typed;
  return {
    ...fresh,
    fields: fields.map((field) =>
      field.id === 'kernel' && typedName !== undefined ? { ...field, typed: typedName } : field,
    ),
    selected: form.selected,
  };
}

/** The form with these values of parameters, by name; a value that the kernel does not offer is ignored. */
export function withParameters(form: RunForm, parameters: Readonly<Record<string, bigint>>): RunForm {
  const fields = form.fields.map((field): FormField => {
    const value = field.id.startsWith('param:') ? entryOf(parameters, field.label) : undefined;
    const chosen = value === undefined ? -1 : field.choices.indexOf(String(value));
    return chosen < 0 ? field : { ...field, chosen };
  });
  return { ...form, fields };
}

/** The form for another command. */
export function withAction(form: RunForm, action: Action): RunForm {
  const fields = form.fields.map((field): FormField => {
    const chosen = field.id === 'phases' ? field.choices.indexOf(action) : -1;
    return chosen < 0 ? field : { ...field, chosen };
  });
  return { ...form, fields };
}

/** The path typed for the kernel; undefined if none was typed. */
export function typedPath({ fields }: Pick<RunForm, 'fields'>): string | undefined {
  const { typed = '' } = fields.find(({ id }) => id === 'kernel') ?? {};
  return isPath(typed) ? typed : undefined;
}
