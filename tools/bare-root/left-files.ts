/** What may be left by the README's commands, as paths of the root: a folder with all below it. */
function kept({ home, id }: { home: string; id: number }): string[] {
  // vitest keeps a token of its own.
  const names = ['flashcore', '.flashcore', '.local/state/flashcore', '.local/share/vitest', '.npm', '.nx'];
  const inHome = names.map((name) => `${home}/${name}`);
  // npm keeps what V8 made of its code in /tmp, nx a copy of its own, and enter.sh's mounts are listed in /run/mount.
  const elsewhere = ['/tmp/node-compile-cache', `/tmp/.nx/${id}`, `/tmp/flashcore-${id}`, '/run/mount'];
  return [...inHome, ...elsewhere].map((path) => path.slice(1));
}

/** The files that came into a root otherwise: `before` and `after` are its files. */
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
