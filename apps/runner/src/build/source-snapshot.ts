import { createHash } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { readForeignFile, readForeignText } from '@flashcore/shared/files';
import {
  isCubinSource,
  isPtxSource,
  isTritonSource,
  mayBeSource,
  originalsOfCubin,
  originalsOfPtx,
} from '@flashcore/shared/kernels';
import { DeadlinePassed, withinDeadline } from '@flashcore/shared/text';
import type { CompilerDiagnostic } from './diagnostics.ts';
import { readSourceText, unescaped, type SourceText } from './source-text.ts';

/** A source file as the compiler will see it. */
export interface SnapshotFile {
  /** Path in the build folder: "kernel/…" for the kernel's own files, "kernels/…" for the shared ones. */
  path: string;
  text: string;
  /** Whether the file is binary, in which case `text` has one character per byte. */
  binary?: boolean;
}

export interface SnapshotOptions {
  folder: string;
  /** The translation unit, relative to the folder. */
  source: string;
  kernelsFolder: string;
}

export interface SourceSnapshot {
  /** The translation unit first, then everything that it includes directly or indirectly. */
  files: SnapshotFile[];
  /** Why the sources can't be compiled, for example a missing source or an include that leaves the kernel's folder. */
  problems: CompilerDiagnostic[];
}

const MAX_FILES = 256;
const MAX_FILE_BYTES = 2 * 1024 * 1024;
/** ptxas takes some 10 ms for each empty entry, and reports five lines about it. */
export const MAX_ENTRIES = 1000;
const PTX_ENTRY = /\.entry\b/g;
const TOO_LARGE = `a source may have at most ${MAX_FILE_BYTES / 2 ** 20} MiB: this one has more`;
/** Sources of the maximum size are read in about 300 ms. */
const READ_LIMIT_MS = 4_000;
/** The maximum number of problems reported per file. */
const MAX_PROBLEMS = 20;
/** Headers that kernels rarely need, and for each group of them a stub to use if the compiler does not have them. */
const STUBBED = [
  { names: /^(?:torch|ATen|c10|pybind11)\/[\w./-]+\.h$/, stub: 'kernels/stubs/pytorch.h' },
  { names: /^(?:cublas|cublas_v2|cublasLt)\.h$/, stub: 'kernels/stubs/cublas.h' },
  { names: /^(?:curand_kernel|curand)\.h$/, stub: 'kernels/stubs/curand.h' },
] as const;
/** Folder of the stubs in the build folder, with the names that sources include. It is last in the include path. */
export const STUBS = 'stubs';
/** CUTLASS's macro for the headers of libcu++; no other macro may name an include. */
const STANDARD_HEADER = /^CUDA_STD_HEADER\([ \t]*(\w{1,64})[ \t]*\)/;
const DEFINES_STANDARD_HEADER = /\bdefine[\s\0\ufeff]+CUDA_STD_HEADER\b/;
// "%:" and "??=" are other spellings of "#"; "# 1" is what a preprocessor writes for "#line 1".
const INTRODUCERS = ['#', '%:', '??='];
const BLANK = '\0\t\v\f\r \ufeff';
const DIRECTIVE_NAME = /(include|include_next|import|embed|line|(?=\d))\b/y;
/** Limit over all files of a kernel, because each include takes three file lookups. */
const MAX_DIRECTIVES = 4_000;
const NAME = /^(?:"([^"\n]+)"|<([^>\n]+)>)/;
const LINE_NAME = /^[\d']+\s*(?:"((?:[^"\\]|\\.)*)"|$)/;
// Assembler directives that put a host file into the code or into the assembler's messages.
export const READS_FILE = /\.(?:incbin|include)\b/i;
// The same directives outside of string literals, where a macro may turn them into a string.
const READS_FILE_BARE = /\.(?:incbin\b|include\s*")/i;

/**
 * Copies a kernel's source and everything it includes from its own folder or from kernels/, so that exactly the
 * digested files are compiled. The compiler's own headers provide the other includes; includes that name a place on the
 * host are refused.
 */
export function snapshotSources(options: SnapshotOptions): SourceSnapshot {
  try {
    return withinDeadline(READ_LIMIT_MS, () => readSources(options));
  } catch (error) {
    if (!(error instanceof DeadlinePassed)) throw error;
    const message = `the sources could not be read within ${READ_LIMIT_MS / 1000} s: make them shorter`;
    return { files: [], problems: [problem(`kernel/${options.source}`, 0, message)] };
  }
}

function readSources(options: SnapshotOptions): SourceSnapshot {
  const files = new Map<string, SnapshotFile>();
  const problems: CompilerDiagnostic[] = [];
  let directives = 0;
  const roots = { kernel: options.folder, kernels: options.kernelsFolder };
  const visit = (path: string): void => {
    if (files.has(path) || files.size >= MAX_FILES) return;
    if (isCubinSource(path)) {
      const bytes = readForeignFile(hostPath(roots, path), MAX_FILE_BYTES);
      files.set(path, { path, text: bytes.toString('latin1'), binary: true });
      return;
    }
    const text = readForeignText(hostPath(roots, path), MAX_FILE_BYTES);
    files.set(path, { path, text });
    // Python comments look like directives.
    if (isTritonSource(path)) return;
    const source = readSourceText(text);
    const refused: CompilerDiagnostic[] = source.doubts.map(({ line, reason }) => problem(path, line, reason));
    for (const directive of directivesOf(source)) {
      if (refused.length >= MAX_PROBLEMS) break;
      directives += 1;
      if (directives > MAX_DIRECTIVES) {
        refused.push(
          problem(path, source.lineAt(directive.index), `more than ${MAX_DIRECTIVES} includes are not read`),
        );
        break;
      }
      const found =
        directive.include &&
        candidatesOf(path, directive.include).find((candidate) => isSource(hostPath(roots, candidate)));
      const refusal = refusalOf(directive, found);
      if (refusal) refused.push(problem(path, source.lineAt(directive.index), refusal));
      else if (found) visit(found);
      else if (directive.include) addStub(directive.include.name);
    }
    const redefined = source.code.search(DEFINES_STANDARD_HEADER);
    if (redefined >= 0)
      refused.push(
        problem(path, source.lineAt(redefined), 'CUDA_STD_HEADER may not be defined: it may name an include'),
      );
    const assembled =
      source.strings.find((each) => READS_FILE.test(each.text))?.index ?? source.code.search(READS_FILE_BARE);
    if (assembled >= 0)
      refused.push(
        problem(
          path,
          source.lineAt(assembled),
          '.incbin and .include are not allowed: a kernel is compiled from its sources alone',
        ),
      );
    problems.push(...refused);
  };
  const addStub = (name: string): void => {
    const path = `${STUBS}/${posix.normalize(name)}`;
    const stub = STUBBED.find(({ names }) => names.test(name))?.stub;
    if (stub === undefined || files.has(path) || !isSource(hostPath(roots, stub))) return;
    files.set(path, { path, text: `#include <${stub.slice('kernels/'.length)}>\n` });
    visit(stub);
  };
  const unit = `kernel/${posix.normalize(options.source)}`;
  const inside = !unit.startsWith('kernel/..');
  if (inside && isSource(hostPath(roots, unit))) visit(unit);
  else if (inside && isFile(hostPath(roots, unit))) problems.push(problem(unit, 0, TOO_LARGE));
  else problems.push(problem('kernel/kernel.yaml', 0, `the source ${options.source} is not in the kernel's folder`));
  const entries = isPtxSource(options.source) ? (files.get(unit)?.text.match(PTX_ENTRY)?.length ?? 0) : 0;
  if (entries > MAX_ENTRIES)
    problems.push(problem(unit, 0, `must have at most ${MAX_ENTRIES} entries, got ${entries}`));
  if (isPtxSource(options.source) || isCubinSource(options.source))
    for (const path of compiledFrom(files.get(unit)).filter((each) => isSource(hostPath(roots, each))))
      files.set(path, { path, text: readForeignText(hostPath(roots, path), MAX_FILE_BYTES) });
  return { files: [...files.values()], problems };
}

/**
 * The sources from which PTX or a cubin was compiled, as far as the kernel's folder has them, so that faults and
 * profiles can show their lines.
 */
const compiledFrom = ({ text, binary }: Pick<SnapshotFile, 'text' | 'binary'> = { text: '' }): string[] =>
  (binary ? originalsOfCubin(text) : originalsOfPtx(text))
    .filter(mayBeSource)
    .slice(0, MAX_FILES)
    .map((name) => `kernel/${name}`);

/** SHA-256 over paths and contents. */
export function digestOf(files: readonly SnapshotFile[]): string {
  const hash = createHash('sha256');
  for (const { path, text } of [...files].sort((a, b) => (a.path < b.path ? -1 : 1)))
    hash.update(`${path}\0${text.length}\0${text}`);
  return hash.digest('hex');
}

/** A preprocessor directive that names a file. */
interface Directive {
  kind: 'include' | 'embed' | 'line';
  /** Index in the source's `code`. */
  index: number;
  /** Set for an include that names its file literally. */
  include?: Include;
  /** For #line: "" if it names no file; undefined if a macro might name one. */
  lineName?: string | undefined;
}

interface Include {
  name: string;
  quoted: boolean;
}

function directivesOf({ code }: SourceText): Directive[] {
  const directives: Directive[] = [];
  for (let begin = 0; begin < code.length;) {
    const newline = code.indexOf('\n', begin);
    const end = newline < 0 ? code.length : newline;
    const found = directiveIn(code, begin, end);
    if (found) directives.push(found);
    begin = end + 1;
  }
  return directives;
}

/** The directive between `begin` and `end`, if it is one that names a file. */
function directiveIn(code: string, begin: number, end: number): Directive | undefined {
  const index = skipBlanks(code, begin, end);
  const introducer = INTRODUCERS.find((each) => code.startsWith(each, index));
  if (introducer === undefined) return undefined;
  DIRECTIVE_NAME.lastIndex = skipBlanks(code, index + introducer.length, end);
  const word = DIRECTIVE_NAME.exec(code)?.[1];
  if (word === undefined) return undefined;
  if (word === 'embed') return { kind: 'embed', index };
  const rest = code.slice(skipBlanks(code, DIRECTIVE_NAME.lastIndex, end), end);
  if (word === 'line' || word === '') {
    const match = LINE_NAME.exec(rest.trim());
    return { kind: 'line', index, lineName: match ? unescaped(match[1] ?? '') : undefined };
  }
  const standard = STANDARD_HEADER.exec(rest);
  if (standard) return { kind: 'include', index, include: { name: `cuda/std/${standard[1]}`, quoted: false } };
  const name = NAME.exec(rest);
  return {
    kind: 'include',
    index,
    ...(name && { include: { name: (name[1] ?? name[2])!, quoted: name[1] !== undefined } }),
  };
}

function skipBlanks(code: string, from: number, end: number): number {
  let at = from;
  while (at < end && BLANK.includes(code[at]!)) at += 1;
  return at;
}

/** Why a directive is refused; `found` is the path of the included file in the build folder. */
function refusalOf({ kind, include, lineName }: Directive, found: string | undefined): string | undefined {
  if (kind === 'embed') return '#embed is not allowed: a kernel is compiled from its sources alone';
  // Compilers quote lines of the file named here in their messages.
  if (kind === 'line')
    return lineName === undefined || isOutside(lineName)
      ? "#line may name a file of the kernel's folder only, and no macro"
      : undefined;
  if (!include) return 'an include must name its file: what a macro names could not be digested';
  return isOutside(include.name) && !(found && isRelative(include.name))
    ? `cannot include ${include.name}: only files of the kernel's folder, of kernels/ and of the compiler can be included`
    : undefined;
}

const isRelative = (name: string): boolean => !name.startsWith('/') && !/^[a-z]:|\\/i.test(name);

/** Whether a name could lead out of every folder where the compiler looks it up. */
const isOutside = (name: string): boolean => !isRelative(name) || name.split('/').includes('..');

/** The paths at which the compiler looks for a file, in its order. */
function candidatesOf(from: string, { name, quoted }: Include): string[] {
  const places = [...(quoted ? [dirname(from)] : []), 'kernel', 'kernels'];
  return places.map((place) => posix.normalize(posix.join(place, name))).filter((path) => /^kernels?\//.test(path));
}

function hostPath(roots: { kernel: string; kernels: string }, path: string): string {
  return path.startsWith('kernel/')
    ? join(roots.kernel, path.slice('kernel/'.length))
    : join(roots.kernels, path.slice('kernels/'.length));
}

const isFile = (path: string): boolean => existsSync(path) && statSync(path).isFile();

const isSource = (path: string): boolean => isFile(path) && statSync(path).size <= MAX_FILE_BYTES;

function problem(path: string, line: number, message: string): CompilerDiagnostic {
  return { severity: 'error', file: shownPath(path), line, column: line > 0 ? 1 : 0, message, tool: 'runner' };
}

/** The path as the kernel folder names it, without the build folder's "kernel/" or "kernels/". */
export function shownPath(path: string): string {
  return path.replace(/^(?:\.\/)?kernels?\//, '');
}

/** A compiler's output line with paths as the kernel folder names them. */
export function shownLine(line: string): string {
  return line.replace(/(^|[\s"'(:,=])(?:\.\/)?kernels?\/(?=\S)/g, '$1');
}
