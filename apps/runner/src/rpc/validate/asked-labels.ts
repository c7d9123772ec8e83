import type { Violations } from './violations.ts';

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

/** Labels as part of the filter that a page token is bound to. */
export const labelFilter = (labels: Readonly<Record<string, string>>): string =>
  JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
