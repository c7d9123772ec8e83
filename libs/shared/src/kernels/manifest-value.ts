/** Evaluates a manifest's expressions, and throws an error with the key if there is no value. */
import { FlashcoreError } from '../contract/errors.ts';
import { evaluate, type Expression, ExpressionError } from '../data/expression.ts';
import type { Manifest } from './manifest-model.ts';

/** An expression's value over `scope`. Errors: INVALID_MANIFEST with its key if the value is not finite. */
export function valueOf(
  manifest: Pick<Manifest, 'path'>,
  expression: Expression,
  scope: Readonly<Record<string, number>>,
  key: string,
): number {
  try {
    return evaluate(expression, scope);
  } catch (error) {
    if (error instanceof ExpressionError) throw wrongValue(manifest, key, error.message);
    throw error;
  }
}

/** INVALID_MANIFEST: the expression at `key` has an unusable value. */
export const wrongValue = (manifest: Pick<Manifest, 'path'>, key: string, description: string) =>
  new FlashcoreError('INVALID_MANIFEST', { path: manifest.path, key }, `${manifest.path}: ${key}: ${description}`, {
    violations: [{ field: key, description }],
  });
