/** Runs of compilers that make up a build. */
import { createHash } from 'node:crypto';
import { keyOf, type Compilation } from './compile-cache.ts';
import type { CompileUnit } from './compile-unit.ts';
import type { CompilerDiagnostic } from './diagnostics.ts';

export interface CompilerRun {
  unit: CompileUnit;
  compilation: Compilation;
  diagnostics: CompilerDiagnostic[];
}

/** The runs of parts as one of the whole, which has not ended yet. */
export function partsAsOne(runs: readonly CompilerRun[], unit: CompileUnit): CompilerRun {
  const diagnostics = new Map(runs.flatMap((run) => run.diagnostics).map((each) => [JSON.stringify(each), each]));
  const [first] = runs;
  return {
    unit,
    compilation: {
      ...first!.compilation,
      key: keyOf(unit),
      seconds: Math.max(...runs.map(({ compilation }) => compilation.seconds)),
      cacheHit: runs.every(({ compilation }) => compilation.cacheHit),
      lines: runs.flatMap(({ compilation }) => compilation.lines),
      outputs: runs.flatMap(({ compilation }) => compilation.outputs),
    },
    diagnostics: [...diagnostics.values()],
  };
}

/** Digest of compilers, their versions and arguments; empty when nothing was compiled. */
export function flagsDigest(runs: readonly CompilerRun[]): string {
  if (runs.length === 0) return '';
  const lines = runs.map(({ unit }) => [
    unit.compiler.name,
    unit.compiler.version,
    unit.target,
    ...unit.stages[0]![0]!.arguments,
  ]);
  return createHash('sha256').update(JSON.stringify(lines.sort())).digest('hex');
}
