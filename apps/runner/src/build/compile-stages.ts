import { randomUUID } from 'node:crypto';
import { realpathSync, existsSync, statfsSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { withinDeadline } from '@flashcore/shared/text';
import type { CompilePriority } from './compile-priority.ts';
import type { Command, CompileOptions, CompileUnit } from './compile-unit.ts';
import { untilAborted } from '../async.ts';
import { type Box, type BoxLimits, type BoxPolicy, endedInBox } from '../sandbox/box.ts';
import { hostLoad, runProgram, type ProgramEnd } from '../sandbox/run.ts';
import { withHeaderFolders } from './header-trees.ts';
import { missingCompiler } from './compilers.ts';
import { shownLine, READS_FILE, shownPath } from './source-snapshot.ts';
import { readSourceText } from './source-text.ts';

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
  /** Whether the sandbox of a failed stage did not start, or ended before the program in it. */
  boxBroke: boolean;
}

/** Stops a template bomb before it exhausts the host's memory. */
const MAX_ADDRESS_BYTES = 16 * 1024 ** 3;
const MAX_FILE_BYTES = 1024 ** 3;

const UNTOUCHED = { exitCode: 0, timedOut: false, seconds: 0, leastFreeBytes: Infinity, boxBroke: false };

/** Numbers the compilations, so that each has its own group of processes. */
let compilations = 0;

export interface StageOptions extends Pick<CompileOptions, 'signal' | 'onLine'> {
  folder: string;
  box: Box;
  priority: CompilePriority;
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
 * Without a sandbox, sources are preprocessed and searched for code that reads the host's files, while the compiler
 * already runs. Until the search has found nothing, no compiler output is shown and nothing is kept.
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
  const { folder, box, priority } = options;
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
      const [started, given] = priority.command(program, boxed);
      try {
        return await runProgram(started, given, {
          cwd: folder,
          limitMs: remainingMs,
          // Triton runs the kernel's own Python, which must not get more time when the host is loaded.
          ...(unit.compiler.name !== 'triton' && { growth: hostLoad }),
          signal: options.signal,
          onLine,
          onStarted: (group) => priority.follow(group),
        });
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
  // If the limit was extended because the host is loaded, the sandbox may kill the compiler first, by its limit on
  // processor time.
  end.timedOut ||= end.exitCode === KILLED && end.seconds * 1000 >= unit.limitMs;
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

const EVERY_MS = 100;

/**
 * Watches the free space on a folder's disk, because a compiler that fails for lack of space frees what it had used.
 */
class FreeSpace implements Disposable {
  readonly #folder: string;
  readonly #timer: NodeJS.Timeout;
  #least = Infinity;

  constructor(folder: string) {
    this.#folder = folder;
    this.#look();
    this.#timer = setInterval(() => this.#look(), EVERY_MS).unref();
  }

  /** The fewest free bytes so far, including now; 0 if there was no room for another file. */
  least(): number {
    this.#look();
    return this.#least;
  }

  #look(): void {
    // A removed folder has no free space to report; its compiler fails anyway.
    if (!existsSync(this.#folder)) return;
    const { bavail, bsize, files, ffree } = statfsSync(this.#folder);
    this.#least = Math.min(this.#least, files > 0 && ffree === 0 ? 0 : bavail * bsize);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

const PREPROCESSED = 'preprocessed.ii';
const PREPROCESS_LIMIT_MS = 60_000;
const READ_LIMIT_MS = 10_000;
const MAX_BYTES = 128 * 1024 ** 2;

/**
 * Without a sandbox: looks in the preprocessed source for assembly that reads a file of the host, and returns an error
 * message in a compiler's form; undefined if no assembly does. A directive that the assembler composes itself (.macro)
 * is not found.
 */
async function readsHostFile(
  unit: CompileUnit,
  { folder, signal, priority }: StageOptions,
): Promise<string | undefined> {
  const command = unit.files.some(({ path }) => path.startsWith('kernel/')) ? preprocessing(unit) : undefined;
  if (!command) return undefined;
  const [program, args] = priority.command(unit.compiler.path, withHeaderFolders(command, unit.headers));
  const onStarted = (group: number): (() => void) => priority.follow(group);
  const end = await runProgram(program, args, { cwd: folder, limitMs: PREPROCESS_LIMIT_MS, signal, onStarted });
  // If preprocessing fails, the compile reports the error.
  if (end.exitCode !== 0) return undefined;
  const path = join(folder, PREPROCESSED);
  const bytes = readFileSync(path);
  rmSync(path);
  if (bytes.length > MAX_BYTES)
    return `kernel.cu:1:1: error: the preprocessed source is larger than ${MAX_BYTES} bytes`;
  return withinDeadline(READ_LIMIT_MS, () => refusal(bytes.toString('utf8')));
}

/** The first command of a compilation, changed to only preprocess. */
function preprocessing({ stages }: CompileUnit): string[] | undefined {
  const args = stages[0]?.[0]?.arguments ?? [];
  const output = args.indexOf('-o');
  const mode = args.findIndex((arg) => arg === '-c' || arg === '-cubin' || arg === '-S');
  if (output < 0 || mode < 0) return undefined;
  return args
    .with(output + 1, PREPROCESSED)
    .with(mode, '-E')
    .filter((arg, index) => arg !== '--keep' && arg !== '--keep-dir' && args[index - 1] !== '--keep-dir');
}

function refusal(text: string): string | undefined {
  const { code, strings } = readSourceText(text);
  const found = strings.find((each) => READS_FILE.test(each.text));
  if (!found) return undefined;
  // A line marker such as "# 12 \"kernel/k.cu\"" gives the source location.
  const marker = code.lastIndexOf('\n# ', found.index);
  const [, line = '1', file = 'kernel.cu'] = /^# (\d+) "([^"\n]*)"/.exec(code.slice(marker + 1, marker + 500)) ?? [];
  const from = code.indexOf('\n', marker + 1);
  const below = code.slice(from + 1, found.index).split('\n').length - 1;
  return `${shownPath(file)}:${Number(line) + below}:1: error: .incbin and .include are not allowed: there is no box here that would hide the files of the host`;
}
