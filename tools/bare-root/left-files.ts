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
