import { randomUUID } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { availableParallelism, homedir } from 'node:os';
import { dirname } from 'node:path';
import type { Command, CompileOptions, CompileUnit } from './compile-unit.ts';
import { untilAborted } from '../async.ts';
import type { Box, BoxLimits, BoxPolicy } from '../sandbox/box.ts';
import { endedInBox } from '../sandbox/box-status.ts';
import { runProgram, type ProgramEnd } from '../sandbox/run.ts';
import { FreeSpace } from './free-space.ts';
import { withHeaderFolders } from './header-trees.ts';
import { missingCompiler } from './missing-compiler.ts';
import { atPriority } from './priority.ts';
import { readsHostFile } from './preprocessed.ts';
import { shownLine } from './source-snapshot.ts';

/** In arguments: the build folder's absolute path, which no digest and no shown argument holds. */
export const BUILD_FOLDER = '@build@';

/** Exit status shown for a compiler that was killed. */
export const KILLED = 137;

export interface StagesEnd {
  exitCode: number;
  timedOut: boolean;
  seconds: number;
  lines: string[];
  /** On the disk of the build folder, at the worst moment. */
  leastFreeBytes: number;
  /** The box of a stage that failed did not start, or ended before what ran in it. */
  boxBroke: boolean;
}

/** A template bomb ends here rather than in the host's memory. */
const MAX_ADDRESS_BYTES = 16 * 1024 ** 3;
const MAX_FILE_BYTES = 1024 ** 3;

const UNTOUCHED = { exitCode: 0, timedOut: false, seconds: 0, leastFreeBytes: Infinity, boxBroke: false };

/** Each has a group of its own. */
let compilations = 0;

interface StageOptions extends CompileOptions {
  folder: string;
  box: Box;
}

/** Runs a unit's stages in its build folder, boxed, until one fails. */
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
 * Without a box: looks for what reads the host's files while the compiler runs, which takes longer. Until nothing was
 * found no line of the compiler is told, and nothing that it made is kept.
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
  // Whoever asks for what was compiled is told.
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
 * What a compiler that is not the system's is part of: the folder above its bin/; its own folder where there is no bin/
 * or that would be the user's home.
 */
export function toolchainFolder(compiler: string): string {
  const folder = dirname(realpathSync(compiler));
  const above = dirname(folder);
  return folder.endsWith('/bin') && above !== '/' && above !== homedir() ? above : folder;
}

/** Runs as many at once as the machine has processors. */
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
