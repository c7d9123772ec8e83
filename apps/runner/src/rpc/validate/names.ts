import type { Violations } from './violations.ts';

const JOB_NAME = /^jobs\/[0-9A-Za-z-]{1,64}$/;
/** Kernel ids have letters, digits and _; a - is allowed here, so that the nearest names can be suggested. */
const KERNEL_ID = /^[\w-]{1,128}$/;
const SHOWN = 80;

/** Checks only the form; the store decides if the job exists. */
export function checkJobName(field: string, name: string, violations: Violations): void {
  if (!JOB_NAME.test(name)) violations.add(field, `must be a job's name such as jobs/123e4567, is ${shown(name)}`);
}

export function checkKernelId(field: string, id: string, violations: Violations): void {
  if (!KERNEL_ID.test(id)) violations.add(field, `must have 1 to 128 letters, digits, "_" and "-", is ${shown(id)}`);
}

const shown = (text: string): string => JSON.stringify(text.slice(0, SHOWN)) + (text.length > SHOWN ? '…' : '');

const MAX_LABELS = 16;
const MAX_CHARACTERS = 1024;
/** Names go into paths of SQLite's JSON functions, so no character that needs quoting is allowed. */
const NAME = /^[a-z][a-z0-9_.-]{0,62}$/;

/** Checks labels of a job or of a list request. */
export function checkLabels(field: string, labels: Readonly<Record<string, string>>, violations: Violations): void {
  const entries = Object.entries(labels);
  violations.count(field, entries, MAX_LABELS);
  for (const [name, value] of entries.slice(0, MAX_LABELS)) {
    if (!NAME.test(name))
      violations.add(
        field,
        `must have names of a-z, 0-9, _ . and -, at most 63 characters, a letter first; has ${JSON.stringify(name.slice(0, 64))}`,
      );
    else violations.text(`${field}.${name}`, value, MAX_CHARACTERS);
  }
}

/** Labels as text. A page token is valid only for the filter, and so the labels, it was made for. */
export const labelFilter = (labels: Readonly<Record<string, string>>): string =>
  JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
