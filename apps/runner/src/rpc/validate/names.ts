import type { Violations } from './violations.ts';

/** A name that is looked up: not empty, of bounded length. */
export function checkName(field: string, name: string, violations: Violations): void {
  if (name === '') violations.add(field, 'must not be empty');
  violations.text(field, name);
}
