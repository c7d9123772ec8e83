/** Compiles a kernel's entries separately and in parallel (kernels/mechanisms/first_entries.cuh). */
import { availableParallelism } from 'node:os';
import pLimit from 'p-limit';
import type { BuildListener } from './compile-cache.ts';
import type { StoredOutput } from './compile-record.ts';
import type { CompileUnit } from './compile-unit.ts';
import type { CompilerRun } from './compiler-runs.ts';
import { hasVariables } from './cubin-code.ts';
import { parsePtxasReport } from './ptxas-report.ts';

interface ApartOptions {
  entries: readonly string[];
  /** The entries that the build waits for. */
  first: readonly string[];
  unitOf: (entries: readonly string[]) => CompileUnit;
  /** The unit with all entries. */
  whole: CompileUnit;
  run: (unit: CompileUnit, listener: BuildListener) => Promise<CompilerRun>;
  pathOf: (output: StoredOutput) => string;
  listener: BuildListener;
}

interface CompiledApart {
  /**
   * Runs of the first entries; undefined if all entries are first, or if the first entries cannot be built separately.
   */
  first: Promise<CompilerRun[] | undefined>;
  all: Promise<CompilerRun[]>;
}

/** Compiles the first entries, and the others in the background at the lowest priority. */
export function compileApart(options: ApartOptions): CompiledApart {
  const { entries, first, listener } = options;
  const failed = new AbortController();
  const parts: BuildListener = {
    ...withBlocksOfLines(listener),
    signal: AbortSignal.any([listener.signal, failed.signal]),
  };
  const limit = pLimit(availableParallelism());
  const start = (entry: string, aside: boolean): Promise<CompilerRun> =>
    limit(async () => {
      parts.signal.throwIfAborted();
      const run = await options.run(options.unitOf([entry]), { ...parts, aside: listener.aside || aside });
      if (!succeeded(run)) failed.abort(new Error(`${entry} does not compile`));
      return run;
    });
  const waitedFor = first.map((entry) => start(entry, false));
  const others = entries.filter((entry) => !first.includes(entry)).map((entry) => start(entry, true));
  return {
    first: others.length === 0 ? Promise.resolve(undefined) : standing(waitedFor, options),
    all: allOf([...waitedFor, ...others], options, failed.signal),
  };
}

async function standing(parts: Promise<CompilerRun>[], options: ApartOptions): Promise<CompilerRun[] | undefined> {
  const ends = await Promise.allSettled(parts);
  const runs = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []));
  const stand = runs.length === parts.length && runs.every((run) => succeeded(run) && !sharesMemory(run, options));
  return stand ? runs : undefined;
}

async function allOf(
  parts: Promise<CompilerRun>[],
  options: ApartOptions,
  failed: AbortSignal,
): Promise<CompilerRun[]> {
  const ends = await Promise.allSettled(parts);
  const runs = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []));
  if (failed.aborted) return explained(runs, options);
  const lost = ends.find((end) => end.status === 'rejected');
  if (lost) throw lost.reason as Error;
  const sharing = runs.filter((run) => sharesMemory(run, options));
  if (sharing.length < 2) return runs;
  // If compiled separately, each part would have its own copy of the variables.
  const together = options.unitOf(sharing.flatMap(({ unit }) => unit.entries ?? []));
  return [...runs.filter((run) => !sharing.includes(run)), await options.run(together, options.listener)];
}

/**
 * Compiles the kernel as a whole, so that the compiler reports each error once, for all entries. If the whole compiles,
 * returns the failed runs of its parts instead.
 */
async function explained(runs: readonly CompilerRun[], { whole, run, listener }: ApartOptions): Promise<CompilerRun[]> {
  const inOne = await run(whole, listener);
  const known = parsePtxasReport(inOne.compilation.lines).map(({ entry }) => entry);
  const wrongAlone = runs.filter(
    (each) => !succeeded(each) && each.unit.entries!.every((entry) => known.includes(entry)),
  );
  return succeeded(inOne) && wrongAlone.length > 0 ? wrongAlone : [inOne];
}

const succeeded = ({ compilation }: CompilerRun): boolean => compilation.exitCode === 0;

/** Whether a part has variables in device memory, which launches of other entries may also use. */
const sharesMemory = ({ compilation: { outputs } }: CompilerRun, { pathOf }: ApartOptions): boolean =>
  outputs.some((output) => output.kind === 'cubin' && hasVariables(pathOf(output)));

/**
 * Passes on the lines of a successful run when the run has ended, so that the lines of parallel runs do not mix. A line
 * that several runs print is passed on only once.
 */
function withBlocksOfLines({ onCompiled, onLine, ...listener }: BuildListener): BuildListener {
  const told = new Set<string>();
  return {
    ...listener,
    onCompiled: (unit, compilation) => {
      onCompiled?.(unit, compilation);
      if (compilation.exitCode !== 0) return;
      for (const line of compilation.lines.filter((each) => !told.has(each))) {
        told.add(line);
        onLine?.(unit.compiler.name, line);
      }
    },
  };
}
