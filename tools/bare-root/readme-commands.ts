/** The README's two commands, and what they may leave on a machine. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const README = join(import.meta.dirname, '../../README.md');

/** The folder of the second machine's compilations for tests (FLASHCORE_TESTS_CACHE). */
export const TESTS_CACHE = '/var/cache/flashcore-tests';

/** The two commands of the README. The first one opens the terminal program. The second one ends by itself. */
export function readmeCommands(text = readFileSync(README, 'utf8')): { start: string; test: string } {
  const [, section = ''] = text.split(/^## Two commands$/m);
  const commands = [...section.matchAll(/^(npm ci && npm \w+)\s+#/gm)].map(([, command]) => command!);
  const [start, test] = commands;
  if (start === undefined || test === undefined || commands.length !== 2)
    throw new Error(`README.md, "Two commands": must have two lines "npm ci && npm …  # …", got ${commands.length}`);
  return { start, test };
}

/** Paths in the root that the README's commands may leave. A folder stands for everything below it. */
function kept({ home, id }: { home: string; id: number }): string[] {
  // vitest keeps a token in .local/share/vitest.
  const names = ['flashcore', '.flashcore', '.local/state/flashcore', '.local/share/vitest', '.npm', '.nx'];
  const inHome = names.map((name) => `${home}/${name}`);
  // npm keeps V8's compiled code in /tmp and nx its cache. /run/mount lists the mounts of enter.sh.
  const elsewhere = ['/tmp/node-compile-cache', `/tmp/.nx/${id}`, `/tmp/flashcore-${id}`, '/run/mount', TESTS_CACHE];
  return [...inHome, ...elsewhere].map((path) => path.slice(1));
}

/** The other new files in a root. `before` and `after` are all files of the root. */
export function leftFiles(
  before: ReadonlySet<string>,
  after: ReadonlySet<string>,
  user: { home: string; id: number },
): string[] {
  const folders = kept(user);
  const mayStay = (file: string): boolean =>
    folders.some((folder) => `${file}/`.startsWith(`${folder}/`) || folder.startsWith(`${file}/`));
  return [...after].filter((file) => !before.has(file) && !mayStay(file));
}
