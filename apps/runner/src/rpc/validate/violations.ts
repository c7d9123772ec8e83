import { invalidRequest, type FieldViolation } from '@flashcore/shared/contract';
import { PROBLEMS_REMEDY, TENSOR_DTYPES, installedProblems, isTensorDtype } from '@flashcore/shared/kernels';
import { didYouMean } from '@flashcore/shared/text';

interface Range {
  least: number;
  most: number;
  unit?: string;
}

/** Collects all violations of a request, so that a client learns them at once. */
export class Violations {
  readonly #found: FieldViolation[] = [];

  add(field: string, description: string): void {
    this.#found.push({ field, description });
  }

  addAll(found: readonly FieldViolation[]): void {
    this.#found.push(...found);
  }

  /** A finite number between two bounds. */
  range(field: string, value: number, { least, most, unit = '' }: Range): void {
    if (value >= least && value <= most) return;
    this.add(field, `must be from ${least} to ${most}${unit && ` ${unit}`}, got ${value}`);
  }

  /** A text of at most `most` characters, without control characters. */
  text(field: string, value: string, most = 128): void {
    if (value.length > most) this.add(field, `must have at most ${most} characters, has ${value.length}`);
    else if (/[\u0000-\u001f\u007f]/.test(value)) this.add(field, 'must have no control character');
  }

  /** A list of at most `most` elements. */
  count(field: string, values: readonly unknown[], most: number): void {
    if (values.length > most) this.add(field, `must have at most ${most} elements, has ${values.length}`);
  }

  /** A value of a proto enum; 0 (UNSPECIFIED) is valid only if `optional`. */
  enumValue(field: string, value: number, values: Record<string, unknown>, { optional = false } = {}): void {
    if (value === 0 && optional) return;
    if (value === 0 || !Object.values(values).includes(value))
      this.add(field, `must be a value of its enum, got ${value}`);
  }

  /** A dtype of Q, K, V and O; empty means fp16. */
  dtype(field: string, value: string): void {
    if (value !== '' && !isTensorDtype(value)) this.add(field, `must be ${TENSOR_DTYPES.join(', ')} or empty`);
  }

  /** The id of an installed problem; empty means the default. */
  problem(field: string, value: string): void {
    const known = installedProblems();
    if (value !== '' && !known.includes(value))
      this.add(
        field,
        `must be one of ${known.join(', ')} or empty, got "${value}"${didYouMean(value, known) || `; ${PROBLEMS_REMEDY}`}`,
      );
  }

  /** Throws INVALID_REQUEST with all violations. */
  throwIfAny(): void {
    if (this.#found.length > 0) throw invalidRequest(...this.#found);
  }
}

const JOB_NAME = /^jobs\/[0-9A-Za-z-]{1,64}$/;
/** Kernel ids have letters, digits and _; a - is allowed here, so that the nearest names can be suggested. */
const KERNEL_ID = /^[\w-]{1,128}$/;
const SHOWN = 80;

/** Checks only the form; the store decides if the job exists. */
export function checkJobName(field: string, name: string, violations: Violations): void {
  if (!JOB_NAME.test(name)) violations.add(field, `must be a job's name such as jobs/123e4567, got ${shown(name)}`);
}

export function checkKernelId(field: string, id: string, violations: Violations): void {
  if (!KERNEL_ID.test(id)) violations.add(field, `must have 1 to 128 letters, digits, "_" and "-", got ${shown(id)}`);
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

/** Labels as text, for page tokens: a token is valid only with the labels that it was made for. */
export const labelFilter = (labels: Readonly<Record<string, string>>): string =>
  JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
