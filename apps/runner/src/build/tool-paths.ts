import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** "clang++" and Debian's versioned names, newest first. */
const CLANGS = ['clang++', ...Array.from({ length: 17 }, (_, index) => `clang++-${30 - index}`)];
/** Homebrew's folders for clang, which it leaves off PATH. */
const HOMEBREW_LLVM = ['/opt/homebrew/opt/llvm/bin', '/usr/local/opt/llvm/bin'];

/** Path of a program of this host, looked up at each call; undefined if there is none. */
export function toolPath(name: string): string | undefined {
  if (name.startsWith('/')) return existsSync(name) ? name : undefined;
  const cuda = namedToolkits().map((root) => join(root, 'bin'));
  const folders = [
    ...(name.endsWith('++') ? [] : cuda),
    ...(process.env['PATH'] ?? '').split(delimiter),
    ...(name.startsWith('clang') ? HOMEBREW_LLVM : []),
    // If a toolkit is named, only that one is used.
    ...(cuda.length === 0 ? ['/usr/local/cuda/bin'] : []),
  ];
  return folders
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path));
}

/** Each clang++ of this host. */
export const clangPaths = (): string[] => [...new Set(CLANGS.flatMap((name) => toolPath(name) ?? []))];

/** The toolkits that CUDA_HOME and CUDA_PATH name. */
export const namedToolkits = (): string[] =>
  [process.env['CUDA_HOME'], process.env['CUDA_PATH']].flatMap((root) => (root ? [root] : []));
