import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Option, type Command } from 'commander';
import { BuildTools } from './build-tools.ts';
import { CompileProgress } from './compile-progress.ts';
import { DEFAULT_ENGINE, ENGINES_WANTED, type EngineWanted } from './host-libraries.ts';
import { InstalledLibraries, installedFolder } from './shared-builds.ts';
import { vectorPathsOf } from './vector-path.ts';

interface Surroundings {
  repositoryRoot: string;
  /** The data folder of this user's runner. */
  defaultData: string;
  /** Registers work to do once the command line is parsed. */
  defer: (work: () => Promise<void>) => void;
}

/**
 * Adds `compile`, which compiles at installation what the runner itself needs on this host, so that no job waits for
 * it. Libraries that this user's runner has are copied, because `npm ci` deletes those of the installation before.
 */
export function addCompileCommand(program: Command, { repositoryRoot, defaultData, defer }: Surroundings): void {
  program
    .command('compile')
    .description(
      'compiles the emulator and the CPU reference, so that no job waits for it; a runner compiles what it lacks',
    )
    .option('--into <folder>', 'where to put the libraries, each under its digest', installedFolder(repositoryRoot))
    .addOption(
      new Option('--emulator-engine <engine>', 'engine of the emulator to compile')
        .choices(ENGINES_WANTED)
        .default(DEFAULT_ENGINE),
    )
    .addOption(
      new Option(
        '--vectors <which>',
        'vector path of the PTX engine: the one for this host, or all, for an installation that several hosts share',
      )
        .choices(['host', 'all'])
        .default('host'),
    )
    .action((flags: CompileFlags) => defer(() => compileLibraries({ repositoryRoot, defaultData }, flags)));
}

interface CompileFlags {
  into: string;
  emulatorEngine: EngineWanted;
  vectors: 'host' | 'all';
}

/**
 * Compiles the libraries, and prints the paths of the emulator's libraries. Errors: COMPILER_MISSING, INTERNAL if
 * something does not compile.
 */
async function compileLibraries(
  { repositoryRoot, defaultData }: Omit<Surroundings, 'defer'>,
  { into, emulatorEngine: engine, vectors }: CompileFlags,
): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), 'flashcore-compile-'));
  try {
    const tools = new BuildTools({
      repositoryRoot,
      dataDirectory: work,
      libraryCache: resolve(into),
      others: runnersLibraries(join(defaultData, 'libraries')),
      engine,
    });
    const progress = new CompileProgress({ say: (text) => console.error(text) });
    const listener = { signal: new AbortController().signal, progress };
    const target = { arch: '', emulated: true };
    const [emulator] = await Promise.all([
      tools.libraries.emulator(listener),
      tools.libraries.reference(listener),
      tools.libraries.executor(listener),
      tools.libraries.clockStamp(target, listener),
      tools.libraries.canary(target, listener),
    ]);
    console.log(`emulator: ${emulator}`);
    // The library has vector paths only with the PTX engine.
    const paths = vectors === 'all' && tools.emulation().engine === 'ptx' ? vectorPathsOf(process.arch) : [];
    for (const path of paths) console.log(`emulator for ${path}: ${await tools.libraries.emulator(listener, path)}`);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

const WRITABLE_BY_OTHERS = 0o022;

/**
 * The folder's libraries; none if the folder belongs to another user or if others may write to it. Under `sudo -E`,
 * $HOME is another user's folder, and root must not install code that this user has made.
 */
export function runnersLibraries(folder: string): InstalledLibraries[] {
  if (!existsSync(folder)) return [];
  const { uid, mode } = statSync(folder);
  return uid === process.geteuid?.() && (mode & WRITABLE_BY_OTHERS) === 0 ? [new InstalledLibraries(folder)] : [];
}
