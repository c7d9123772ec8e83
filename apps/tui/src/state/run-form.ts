/** What may be chosen before a run, from the kernel's manifest and the runner's cases: pure data, changed by keys. */
import { fieldsOf, type FormContext } from './form-choices.ts';
import { isPath, matchingChoices, type FormField } from './form-field.ts';
import type { ListedKernel } from './listed-kernel.ts';

export interface RunForm {
  readonly kernel: ListedKernel;
  readonly fields: readonly FormField[];
  readonly selected: number;
}

/** The form with every field at its default: running it as it is runs the kernel as the manifest says. */
export const formOf = (kernel: ListedKernel, context: FormContext): RunForm => ({
  kernel,
  // The kernel was chosen already.
  selected: 1,
  fields: fieldsOf(kernel, context),
});

/**
 * The form after the cursor moved by `by`, or the selected field's choice by `change`; a choice takes the place of what
 * was typed.
 */
export function withKeys(form: RunForm, { by = 0, change = 0 }: { by?: number; change?: number }): RunForm {
  const selected = Math.max(0, Math.min(form.fields.length - 1, form.selected + by));
  const fields = form.fields.map((field, index) =>
    index === selected && change !== 0 ? withChange(field, change) : field,
  );
  return { ...form, selected, fields };
}

/** The next choice; of kernels that were typed for, the next that matches. */
function withChange(field: FormField, change: number): FormField {
  const among = field.id === 'kernel' ? matchingChoices(field) : field.choices;
  const place = among.indexOf(field.choices[field.chosen] ?? '');
  const next = among[(place + change + among.length) % Math.max(1, among.length)];
  return {
    ...field,
    chosen: next === undefined ? field.chosen : field.choices.indexOf(next),
    ...(field.typed !== undefined && field.id !== 'kernel' && { typed: '' }),
  };
}

/**
 * The form with a character typed into the selected field, or its last one taken away; fields of choices alone stay as
 * they are.
 */
export function withTyping(form: RunForm, key: { character: string } | 'backspace'): RunForm {
  const fields = form.fields.map((field, index): FormField => {
    if (index !== form.selected || field.typed === undefined) return field;
    const typed = key === 'backspace' ? field.typed.slice(0, -1) : field.typed + key.character;
    // A folder is read once its path is complete: when the field is left.
    if (field.id !== 'kernel' || isPath(typed)) return { ...field, typed };
    const [first] = matchingChoices({ ...field, typed });
    return { ...field, typed, chosen: first === undefined ? field.chosen : field.choices.indexOf(first) };
  });
  return { ...form, fields };
}

/** A form for another kernel that keeps what both have. */
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
