import { evaluate, parseExpression, type Expression } from '@flashcore/shared/kernels';
import { entryOf, setEntry } from '@flashcore/shared/text';
import { shownPath, type SnapshotFile } from './source-snapshot.ts';
import { tokensFrom, wordIndices } from './source-text.ts';

/** A statically sized array in shared memory, as the source declares it. */
export interface SharedBuffer {
  /** For example "float K_smem[92 * HEAD_DIM]". */
  declaration: string;
  type: string;
  file: string;
  line: number;
  /** undefined if the size could not be evaluated. */
  bytes: number | undefined;
}

// Limits for one declaration, in tokens and characters; longer ones are skipped, because they are not plain
// declarations.
const MAX_TOKENS = 80;
const MAX_CHARACTERS = 500;
/** Limit per file; a longer list would help nobody. */
const MAX_BUFFERS = 64;
const MAX_CONSTANTS = 1_000;
const INTEGER_TYPES = new Set(['int', 'unsigned', 'size_t', 'uint32_t']);
const WORD = /^\w+$/;
const TYPE_BYTES: Record<string, number> = {
  float: 4,
  half: 2,
  __half: 2,
  half2: 4,
  int: 4,
  unsigned: 4,
  uint32_t: 4,
  double: 8,
  char: 1,
  uint8_t: 1,
  uint4: 16,
  float4: 16,
  float2: 8,
};

/**
 * The arrays that make up a kernel's static shared memory, largest first. They are found in the source's text, which
 * works for plain declarations only.
 */
export function sharedBuffers(
  files: readonly SnapshotFile[],
  parameters: Readonly<Record<string, number>>,
): SharedBuffer[] {
  const scope = constantsOf(files, parameters);
  const found = files.flatMap(({ path, text }) => buffersOf(path, text, scope));
  return found.sort((a, b) => (b.bytes ?? 0) - (a.bytes ?? 0));
}

function buffersOf(path: string, text: string, scope: Record<string, number>): SharedBuffer[] {
  const buffers: SharedBuffer[] = [];
  for (const index of wordIndices(text, '__shared__')) {
    const declared = declarationAt(text, index);
    if (!declared) continue;
    const lengths = declared.extents.map((extent) => valueOf(extent, scope));
    const elementBytes = entryOf(TYPE_BYTES, declared.type);
    const known = elementBytes !== undefined && lengths.every((length) => length !== undefined);
    buffers.push({
      declaration: declared.text,
      type: declared.type,
      file: shownPath(path),
      line: text.slice(0, index).split('\n').length,
      bytes: known ? lengths.reduce((product, length) => product * length, elementBytes) : undefined,
    });
    if (buffers.length >= MAX_BUFFERS) break;
  }
  return buffers;
}

/**
 * The declaration at `index`, such as `__shared__ float K_smem[64][72]`: qualifiers, a type of one word, a name, and
 * one or more extents.
 */
function declarationAt(text: string, index: number): { text: string; type: string; extents: string[] } | undefined {
  const tokens = tokensFrom(text, index + '__shared__'.length, MAX_TOKENS);
  let at = 0;
  while (tokens[at]?.text === 'volatile' || /^(?:__align__|alignas)$/.test(tokens[at]?.text ?? ''))
    at += tokens[at]!.text === 'volatile' ? 1 : 4;
  const [type, name] = [tokens[at], tokens[at + 1]];
  if (!type || !name || !WORD.test(type.text) || !WORD.test(name.text)) return undefined;
  const extents: string[] = [];
  let end = 0;
  for (at += 2; tokens[at]?.text === '['; ++at) {
    const open = tokens[at]!.index;
    while (at < tokens.length && tokens[at]!.text !== ']') at += 1;
    if (at === tokens.length) return undefined;
    end = tokens[at]!.index + 1;
    const extent = text.slice(open + 1, end - 1);
    if (extent.trim() === '') return undefined;
    extents.push(extent);
  }
  if (extents.length === 0 || end - index > MAX_CHARACTERS) return undefined;
  return {
    text: `${type.text} ${name.text}${text.slice(name.index + name.text.length, end).trim()}`,
    type: type.text,
    extents,
  };
}

function constantsOf(
  files: readonly SnapshotFile[],
  parameters: Readonly<Record<string, number>>,
): Record<string, number> {
  const scope: Record<string, number> = { ...parameters };
  // Included files come after the files that include them, so the files are read from the last to the first.
  for (const { text } of files.toReversed()) {
    let constants = 0;
    for (const index of wordIndices(text, 'constexpr')) {
      const [type, name, equals] = tokensFrom(text, index + 'constexpr'.length, 3);
      if (!equals || !INTEGER_TYPES.has(type!.text) || !WORD.test(name!.text) || equals.text !== '=') continue;
      const expression = text.slice(equals.index + 1, equals.index + 1 + MAX_CHARACTERS);
      const end = expression.indexOf(';');
      const value = end < 0 ? undefined : valueOf(expression.slice(0, end), scope);
      if (value !== undefined) setEntry(scope, name!.text, value);
      if (++constants >= MAX_CONSTANTS) break;
    }
  }
  return scope;
}

/** undefined if the text is not plain arithmetic over known names. */
function valueOf(text: string, scope: Record<string, number>): number | undefined {
  let expression: Expression;
  try {
    expression = parseExpression(text.replace(/\(\s*size_t\s*\)/g, '').trim());
    return evaluate(expression, scope);
  } catch (error) {
    if (error instanceof Error && error.name === 'ExpressionError') return undefined;
    throw error;
  }
}
