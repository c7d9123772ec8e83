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
    this.add(field, `must be from ${least} to ${most}${unit && ` ${unit}`}, is ${value}`);
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
      this.add(field, `must be a value of its enum, is ${value}`);
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
        `must be one of ${known.join(', ')} or empty, is "${value}"${didYouMean(value, known) || `; ${PROBLEMS_REMEDY}`}`,
      );
  }

  /** Throws INVALID_REQUEST with all violations. */
  throwIfAny(): void {
    if (this.#found.length > 0) throw invalidRequest(...this.#found);
  }
}
