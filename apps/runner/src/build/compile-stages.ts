import { randomUUID } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { availableParallelism, homedir } from 'node:os';
import { dirname } from 'node:path';
import type { Command, CompileOptions, CompileUnit } from './compile-unit.ts';
import { untilAborted } from '../async.ts';
import { type Box, type BoxLimits, type BoxPolicy, endedInBox } from '../sandbox/box.ts';
import { runProgram, type ProgramEnd } from '../sandbox/run.ts';
import { FreeSpace } from './free-space.ts';
import { withHeaderFolders } from './header-trees.ts';
import { missingCompiler } from './missing-compiler.ts';
import { atPriority } from './priority.ts';
import { readsHostFile } from './preprocessed.ts';
import { shownLine } from './source-snapshot.ts';

/**
 * Placeholder in arguments for the build folder's absolute path, which must not appear in digests and shown arguments.
 */
export const BUILD_FOLDER = '@build@';

/** Exit status shown for a compiler that was killed. */
export const KILLED = 137;

export interface StagesEnd {
  exitCode: number;
  timedOut: boolean;
  seconds: number;
  lines: string[];
  /** Least free space on the build folder's disk during the compilation. */
  leastFreeBytes: number;
  /** The sandbox of a failed stage did not start, or ended before the program in it. */
  boxBroke: boolean;
}

/** A template bomb hits this limit before it exhausts the host's memory. */
const MAX_ADDRESS_BYTES = 16 * 1024 ** 3;
const MAX_FILE_BYTES = 1024 ** 3;

const UNTOUCHED = { exitCode: 0, timedOut: false, seconds: 0, leastFreeBytes: Infinity, boxBroke: false };

/** Gives each compilation a separate group. */
let compilations = 0;

interface StageOptions extends CompileOptions {
  folder: string;
  box: Box;
}

/** Runs a unit's stages in its build folder, in the sandbox, until one fails. */
export async function runStages(unit: CompileUnit, options: StageOptions): Promise<StagesEnd> {
  const policy = policyOf(unit, options.folder);
  const box = await untilAborted(options.box.for(unit.compiler.path, ['--version'], policy), options.signal);
  if (box.kind === 'none' && unit.compiler.name === 'triton') throw missingCompiler('box');
  return box.kind === 'none' ? compileInTheOpen(unit, { ...options, box }) : compile(unit, { ...options, box });
}

function policyOf({ limitMs, compiler, headers = [] }: CompileUnit, folder: string): BoxPolicy {
  const limits: BoxLimits = {
    cpuSeconds: Math.ceil(limitMs / 1000),
    fileBytes: MAX_FILE_BYTES,
    addressBytes: MAX_ADDRESS_BYTES,
  };
  return {
    kind: 'compiler',
    folder,
    readable: [toolchainFolder(compiler.path), ...headers.map((tree) => tree.folder)],
    limits,
  };
}

/**
 * Without a sandbox, a slower check looks for code that reads the host's files while the compiler runs. Until the check
 * has passed, no compiler output is shown and nothing is kept.
 */
async function compileInTheOpen(unit: CompileUnit, options: StageOptions): Promise<StagesEnd> {
  const looked = new AbortController();
  const held: string[] = [];
  let tell = (line: string): void => void held.push(line);
  const compiling = compile(unit, {
    ...options,
    signal: AbortSignal.any([options.signal, looked.signal]),
    onLine: (line) => tell(line),
  });
  // Prevents an unhandled rejection; whoever awaits the compilation still gets the error.
  compiling.catch(() => undefined);
  const giveUp = async (): Promise<void> => {
    looked.abort(new Error('the sources are refused'));
    await compiling.catch(() => undefined);
  };
  const refused = await readsHostFile(unit, options).catch(async (error: unknown) => {
    await giveUp();
    throw error;
  });
  if (refused !== undefined) {
    await giveUp();
    return { ...UNTOUCHED, exitCode: 1, lines: [refused] };
  }
  tell = (line) => options.onLine?.(line);
  held.forEach(tell);
  return compiling;
}

async function compile(unit: CompileUnit, options: StageOptions): Promise<StagesEnd> {
  const { folder, box } = options;
  const policy = policyOf(unit, folder);
  using group = box.group(`compile-${++compilations}`);
  const started = performance.now();
  using space = new FreeSpace(folder);
  const end: StagesEnd = { ...UNTOUCHED, lines: [] };
  const onLine = (line: string): void => options.onLine?.(shownLine(line));
  for (const stage of unit.stages) {
    const remainingMs = Math.max(1, unit.limitMs - (performance.now() - started));
    const ends = await runPool(stage, async ({ arguments: args }) => {
      const status = `${folder}.${randomUUID()}.status`;
      const wrapped = box.wrap(
        unit.compiler.path,
        withHeaderFolders(args, unit.headers).map((arg) => arg.replaceAll(BUILD_FOLDER, folder)),
        { ...policy, status },
      );
      const { program, args: boxed } = group.enter(wrapped);
      const [started, given] = atPriority(program, boxed, options);
      try {
        return await runProgram(started, given, { cwd: folder, limitMs: remainingMs, signal: options.signal, onLine });
      } finally {
        if (box.kind !== 'none' && !endedInBox(status)) end.boxBroke = true;
      }
    });
    end.lines.push(...ends.flatMap(({ lines }) => lines.map(shownLine)));
    end.timedOut ||= ends.some(({ timedOut }) => timedOut);
    end.exitCode = ends.map(({ exitCode }) => exitCode ?? KILLED).find((code) => code !== 0) ?? 0;
    if (end.exitCode !== 0) break;
  }
  end.seconds = (performance.now() - started) / 1000;
  end.leastFreeBytes = space.least();
  return end;
}

/**
 * The folder of a compiler that is not the system's: the folder above its bin/, or the compiler's own folder if there
 * is no bin/ or if the folder above would be the user's home.
 */
export function toolchainFolder(compiler: string): string {
  const folder = dirname(realpathSync(compiler));
  const above = dirname(folder);
  return folder.endsWith('/bin') && above !== '/' && above !== homedir() ? above : folder;
}

/** Runs tasks in parallel, one per processor. */
async function runPool(
  commands: readonly Command[],
  run: (command: Command) => Promise<ProgramEnd>,
): Promise<ProgramEnd[]> {
  const ends: ProgramEnd[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let index = next++; index < commands.length; index = next++) ends[index] = await run(commands[index]!);
  };
  await Promise.all(Array.from({ length: Math.min(availableParallelism(), commands.length) }, lane));
  return ends;
}
