import { availableParallelism } from 'node:os';
import type { Command, CompileOptions, CompileUnit } from './compile-cache.ts';
import { runProcess, type ProcessEnd } from './process.ts';
import { shownLine } from './source-snapshot.ts';

/** In arguments: the build folder's absolute path, which no digest and no shown argument holds. */
export const BUILD_FOLDER = '@build@';

/** Exit status shown for a compiler that was killed. */
const KILLED = 137;

export interface StagesEnd {
  exitCode: number;
  timedOut: boolean;
  seconds: number;
  lines: string[];
}

/** Runs a unit's stages in its build folder, until one fails. */
export async function runStages(unit: CompileUnit, folder: string, options: CompileOptions): Promise<StagesEnd> {
  const started = performance.now();
  const end: StagesEnd = { exitCode: 0, timedOut: false, seconds: 0, lines: [] };
  const onLine = (line: string): void => options.onLine?.(shownLine(line));
  for (const stage of unit.stages) {
    const remainingMs = Math.max(1, unit.limitMs - (performance.now() - started));
    const ends = await runPool(stage, ({ arguments: args }) => runProcess(unit.compiler.path, args.map((arg) => arg.replaceAll(BUILD_FOLDER, folder)), { cwd: folder, limitMs: remainingMs, signal: options.signal, onLine }));
    end.lines.push(...ends.flatMap(({ lines }) => lines.map(shownLine)));
    end.timedOut ||= ends.some(({ timedOut }) => timedOut);
    end.exitCode = ends.map(({ exitCode }) => exitCode ?? KILLED).find((code) => code !== 0) ?? 0;
    if (end.exitCode !== 0) break;
  }
  end.seconds = (performance.now() - started) / 1000;
  return end;
}

/** Runs as many at once as the machine has processors. */
async function runPool(commands: readonly Command[], run: (command: Command) => Promise<ProcessEnd>): Promise<ProcessEnd[]> {
  const ends: ProcessEnd[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let index = next++; index < commands.length; index = next++) ends[index] = await run(commands[index]!);
  };
  await Promise.all(Array.from({ length: Math.min(availableParallelism(), commands.length) }, lane));
  return ends;
}
