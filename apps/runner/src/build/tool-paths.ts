import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** "clang++", and what Debian names beside it, the newest first. */
const CLANGS = ['clang++', ...Array.from({ length: 17 }, (_, index) => `clang++-${30 - index}`)];
/** Where Homebrew keeps its clang, which it leaves off PATH. */
const HOMEBREW_LLVM = ['/opt/homebrew/opt/llvm/bin', '/usr/local/opt/llvm/bin'];

/** Path of a program of this host, looked for at each call; undefined where there is none. */
export function toolPath(name: string): string | undefined {
  if (name.startsWith('/')) return existsSync(name) ? name : undefined;
  const cuda = namedToolkits().map((root) => join(root, 'bin'));
  const folders = [
    ...(name.endsWith('++') ? [] : cuda),
    ...(process.env['PATH'] ?? '').split(delimiter),
    ...(name.startsWith('clang') ? HOMEBREW_LLVM : []),
    // Where a toolkit is named, it is that one or none.
    ...(cuda.length === 0 ? ['/usr/local/cuda/bin'] : []),
  ];
  return folders
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path));
}

/** Each clang++ of this host. */
export const clangPaths = (): string[] => [...new Set(CLANGS.flatMap((name) => toolPath(name) ?? []))];

/** CUDA_HOME, CUDA_PATH. */
export const namedToolkits = (): string[] =>
  [process.env['CUDA_HOME'], process.env['CUDA_PATH']].flatMap((root) => (root ? [root] : []));
