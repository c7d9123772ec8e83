import { createHash } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import type { CompilerDiagnostic } from './diagnostics.ts';

/** A source file as the compiler will see it. */
export interface SnapshotFile {
  /** In the build folder: "kernel/…" for the kernel's own files, "kernels/…" for the shared ones. */
  path: string;
  text: string;
}

export interface SourceSnapshot {
  /** The translation unit first, then all that it includes, itself or through others. */
  files: SnapshotFile[];
  /** Why it can't be compiled: a source that isn't there, an include that leaves the kernel's folder. */
  problems: CompilerDiagnostic[];
}

const MAX_FILES = 256;
const MAX_FILE_BYTES = 2 * 1024 * 1024;
// Continued lines are joined before; "%:" and "??=" are other spellings of "#".
const INCLUDE = /^[ \t]*(?:#|%:|\?\?=)[ \t]*(?:include|include_next|import)\b[ \t]*(.*)$/gm;
const NAME = /^(?:"([^"\n]+)"|<([^>\n]+)>)/;

/**
 * Copies a kernel's source and everything it includes from its own folder or from kernels/, so that what is compiled is exactly what was digested.
 * Other includes are left to the compiler's own headers; those that name a place on the host are refused.
 */
export function snapshotSources(options: { folder: string; source: string; kernelsFolder: string }): SourceSnapshot {
  const files = new Map<string, SnapshotFile>();
  const problems: CompilerDiagnostic[] = [];
  const roots = { kernel: options.folder, kernels: options.kernelsFolder };
  const visit = (path: string): void => {
    if (files.has(path) || files.size >= MAX_FILES) return;
    const text = readFileSync(hostPath(roots, path), 'utf8');
    files.set(path, { path, text });
    for (const include of includesOf(text)) {
      const refusal = refusalOf(include);
      if (refusal) problems.push(problem(path, include.line, refusal));
      const found = refusal ? undefined : candidatesOf(path, include).find((candidate) => isSource(hostPath(roots, candidate)));
      if (found) visit(found);
    }
    if (/\.incbin\b/.test(text)) problems.push(problem(path, lineOf(text, text.indexOf('.incbin')), '.incbin is not allowed: a kernel is compiled from its sources alone'));
  };
  const unit = `kernel/${posix.normalize(options.source)}`;
  if (!unit.startsWith('kernel/..') && isSource(hostPath(roots, unit))) visit(unit);
  else problems.push(problem('kernel/kernel.yaml', 0, `the source ${options.source} is not in the kernel's folder`));
  return { files: [...files.values()], problems };
}

/** SHA-256 over paths and contents. */
export function digestOf(files: readonly SnapshotFile[]): string {
  const hash = createHash('sha256');
  for (const { path, text } of [...files].sort((a, b) => (a.path < b.path ? -1 : 1))) hash.update(`${path}\0${text.length}\0${text}`);
  return hash.digest('hex');
}

interface Include {
  name: string | undefined;
  quoted: boolean;
  line: number;
}

function includesOf(text: string): Include[] {
  // A backslash at its end continues a line, also in the middle of a word; the places where lines were joined are remembered for their numbers.
  const joins: number[] = [];
  const joined = text.replace(/\\\r?\n/g, (splice, index: number) => {
    joins.push(index - joins.length * splice.length);
    return '';
  });
  return [...joined.matchAll(INCLUDE)].map((match) => {
    const name = NAME.exec(match[1]!);
    const joinsBefore = joins.filter((index) => index <= match.index).length;
    return { name: name?.[1] ?? name?.[2], quoted: name?.[1] !== undefined, line: lineOf(joined, match.index) + joinsBefore };
  });
}

function refusalOf({ name }: Include): string | undefined {
  if (name === undefined) return 'an include must name its file: what a macro names could not be digested';
  if (name.startsWith('/') || /^[a-z]:|\\/i.test(name)) return `cannot include ${name}: only files of the kernel's folder, of kernels/ and of the compiler can be included`;
  return undefined;
}

/** Where a file may lie, in the order in which the compiler looks. */
function candidatesOf(from: string, { name, quoted }: Include): string[] {
  const places = [...(quoted ? [dirname(from)] : []), 'kernel', 'kernels'];
  return places.map((place) => posix.normalize(posix.join(place, name!))).filter((path) => /^kernels?\//.test(path));
}

function hostPath(roots: { kernel: string; kernels: string }, path: string): string {
  return path.startsWith('kernel/') ? join(roots.kernel, path.slice('kernel/'.length)) : join(roots.kernels, path.slice('kernels/'.length));
}

function isSource(path: string): boolean {
  return existsSync(path) && statSync(path).isFile() && statSync(path).size <= MAX_FILE_BYTES;
}

function problem(path: string, line: number, message: string): CompilerDiagnostic {
  return { severity: 'error', file: shownPath(path), line, column: line > 0 ? 1 : 0, message, tool: 'runner' };
}

/** As the kernel folder names it: without the build folder's "kernel/" or "kernels/". */
export function shownPath(path: string): string {
  return path.replace(/^(?:\.\/)?kernels?\//, '');
}

/** A compiler's line with its paths as the kernel folder names them. */
export function shownLine(line: string): string {
  return line.replace(/(^|[\s"'(:,=])(?:\.\/)?kernels?\/(?=\S)/g, '$1');
}

function lineOf(text: string, index: number): number {
  return text.slice(0, index).split('\n').length;
}
