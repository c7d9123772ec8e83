/** The README's two commands, and what they may leave on a machine. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const README = join(import.meta.dirname, '../../README.md');

/** The two commands of the README: the first opens the terminal program, the second ends by itself. */
export function readmeCommands(text = readFileSync(README, 'utf8')): { start: string; test: string } {
  const [, section = ''] = text.split(/^## Two commands$/m);
  const commands = [...section.matchAll(/^(npm ci && npm \w+)\s+#/gm)].map(([, command]) => command!);
  const [start, test] = commands;
  if (start === undefined || test === undefined || commands.length !== 2)
    throw new Error(`README.md, "Two commands": must have two lines "npm ci && npm …  # …", got ${commands.length}`);
  return { start, test };
}

/** Paths in the root that the README's commands may leave; a folder includes everything below it. */
function kept({ home, id }: { home: string; id: number }): string[] {
  // vitest keeps its own token here.
  const names = ['flashcore', '.flashcore', '.local/state/flashcore', '.local/share/vitest', '.npm', '.nx'];
  const inHome = names.map((name) => `${home}/${name}`);
  // npm keeps V8's compiled code in /tmp, nx its own cache, and enter.sh's mounts are listed in /run/mount.
  const elsewhere = ['/tmp/node-compile-cache', `/tmp/.nx/${id}`, `/tmp/flashcore-${id}`, '/run/mount'];
  return [...inHome, ...elsewhere].map((path) => path.slice(1));
}

/** Other new files in a root. `before` and `after` are its files. */
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
