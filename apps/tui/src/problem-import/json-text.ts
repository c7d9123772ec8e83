/** Reads JSON of a foreign author, which must not give a key twice: readers differ in which value counts. */
import { yamlFile } from '@flashcore/shared/kernels';
import { NotImportable } from './attention-forms.ts';

/** Errors: NotImportable that begins with `what`. */
export function parseJson(text: string, what: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new NotImportable(`${what}: must be JSON`);
  }
  const repeated = repeatedKey(text);
  if (repeated === undefined) return value;
  throw new NotImportable(`${what}: must have each key once, got ${yamlFile.shown(repeated)} twice`);
}

/** A key that an object of this valid JSON text has twice. */
function repeatedKey(text: string): string | undefined {
  const seen: Set<string>[] = [];
  for (const [token, key] of text.matchAll(/"((?:[^"\\]|\\.)*)"\s*:|"(?:[^"\\]|\\.)*"|[{}]/g)) {
    if (token === '{') seen.push(new Set());
    else if (token === '}') seen.pop();
    else if (key !== undefined) {
      const name = JSON.parse(`"${key}"`) as string;
      if (seen.at(-1)!.has(name)) return name;
      seen.at(-1)!.add(name);
    }
  }
  return undefined;
}
