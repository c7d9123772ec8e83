/** Runs of compilers that make up a build. */
import { createHash } from 'node:crypto';
import { keyOf, type Compilation } from './compile-cache.ts';
import type { CompileUnit } from './compile-unit.ts';
import type { CompilerDiagnostic } from './diagnostics.ts';

export interface CompilerRun {
  unit: CompileUnit;
  compilation: Compilation;
  diagnostics: CompilerDiagnostic[];
  /** The number of parallel calls that this run represents; absent for a single call. */
  parts?: number;
}

/** Merges parallel runs for parts of a kernel into one run of the unit with the whole kernel. */
export function partsAsOne(runs: readonly CompilerRun[], unit: CompileUnit): CompilerRun {
  const diagnostics = new Map(runs.flatMap((run) => run.diagnostics).map((each) => [JSON.stringify(each), each]));
  const compilations = runs.map(({ compilation }) => compilation);
  return {
    unit,
    compilation: {
      ...compilations[0]!,
      key: keyOf(unit),
      seconds: Math.max(...compilations.map(({ seconds }) => seconds)),
      cacheHit: compilations.every(({ cacheHit }) => cacheHit),
      lines: compilations.flatMap(({ lines }) => lines),
      outputs: compilations.flatMap(({ outputs }) => outputs),
    },
    diagnostics: [...diagnostics.values()],
    parts: runs.length,
  };
}

/** Digest of the compilers, their versions and their arguments; empty if nothing was compiled. */
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
