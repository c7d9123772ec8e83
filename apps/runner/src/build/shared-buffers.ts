import { evaluate, parseExpression, type Expression } from '@flashcore/shared/kernels';
import { shownPath, type SnapshotFile } from './source-snapshot.ts';

/** A statically sized array in shared memory, as the source declares it. */
export interface SharedBuffer {
  /** "float K_smem[92 * HEAD_DIM]". */
  declaration: string;
  type: string;
  file: string;
  line: number;
  /** Undefined where the size could not be evaluated. */
  bytes: number | undefined;
}

const DECLARATION =
  /__shared__\s+(?:__align__\(\d+\)\s+|alignas\(\d+\)\s+|volatile\s+)*(\w+)\s+(\w+)((?:\s*\[[^\]]+\])+)/g;
const CONSTANT = /constexpr\s+(?:int|unsigned|size_t|uint32_t)\s+(\w+)\s*=\s*([^;]+);/g;
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
 * Which arrays a kernel's static shared memory is made of, largest first: a reading of the source's text, good for
 * plain declarations.
 */
export function sharedBuffers(
  files: readonly SnapshotFile[],
  parameters: Readonly<Record<string, number>>,
): SharedBuffer[] {
  const scope = constantsOf(files, parameters);
  const found = files.flatMap(({ path, text }) =>
    [...text.matchAll(DECLARATION)].map((match) => bufferOf(match, path, text, scope)),
  );
  return found.sort((a, b) => (b.bytes ?? 0) - (a.bytes ?? 0));
}

function bufferOf(match: RegExpExecArray, path: string, text: string, scope: Record<string, number>): SharedBuffer {
  const [, type, name, extents] = match;
  const lengths = [...extents!.matchAll(/\[([^\]]+)\]/g)].map((extent) => valueOf(extent[1]!, scope));
  const elementBytes = TYPE_BYTES[type!];
  const known = elementBytes !== undefined && lengths.every((length) => length !== undefined);
  return {
    declaration: `${type} ${name}${extents!.trim()}`,
    type: type!,
    file: shownPath(path),
    line: text.slice(0, match.index).split('\n').length,
    bytes: known ? lengths.reduce((product, length) => product * length, elementBytes) : undefined,
  };
}

function constantsOf(
  files: readonly SnapshotFile[],
  parameters: Readonly<Record<string, number>>,
): Record<string, number> {
  const scope: Record<string, number> = { ...parameters };
  // Included files come after those that include them, but their constants are declared first.
  for (const { text } of files.toReversed()) {
    for (const [, name, expression] of text.matchAll(CONSTANT)) {
      const value = valueOf(expression!, scope);
      if (value !== undefined) scope[name!] = value;
    }
  }
  return scope;
}

/** Undefined for what is no plain arithmetic over known names. */
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
