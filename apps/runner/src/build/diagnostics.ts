import { create } from '@bufbuild/protobuf';
import { CodeFrameSchema, type CodeFrame } from '@flashcore/shared/contract';
import { plainLine } from '@flashcore/shared/text';

/** A compiler's message with its source location; the fields mean what the proto's Diagnostic says. */
export interface CompilerDiagnostic {
  severity: 'error' | 'warning' | 'note';
  /** The path as the kernel folder names it. */
  file: string;
  /** From 1; 0 if the message has none. */
  line: number;
  column: number;
  message: string;
  tool: DiagnosticTool;
}

/**
 * "clang++" only when it makes PTX; as the emulator's C++ compiler it is reported as "g++". "as" is the assembler that
 * g++ runs for inline assembly. "runner" means refused before any compiler ran.
 */
export type DiagnosticTool = 'nvcc' | 'nvrtc' | 'ptxas' | 'clang++' | 'g++' | 'as' | 'triton' | 'runner';

const MAX_DIAGNOSTICS = 100;
// "file.cu(9): error: expected a ";"", "file.cu(9): error #20: …", "file.cu(3): warning #177-D: …"
const NVCC = /^(.+?)\((\d+)\): (catastrophic error|error|warning|remark)(?: (#[\w-]+))?: (.*)$/;
const NVCC_FATAL = /^nvcc (fatal|error|warning)\s*: (.*)$/;
const PTXAS = /^ptxas (fatal|error|warning)\s*: (.*)$/;
const PTXAS_PLACE = /^ptxas (.+?), line (\d+); (fatal|error|warning)\s*: (.*)$/;
// "file.cu:9:18: error: expected ';' before …"; also from the host compiler that nvcc runs.
const GNU = /^(.+?):(\d+):(?:(\d+):)? (fatal error|error|warning|note): (.*)$/;
// "file.cu:168: Error: no such instruction: `bar.sync 0'". GNU as, which g++ runs, capitalizes the word.
const GNU_AS = /^(.+?):(\d+): (Fatal error|Error|Warning): (.*)$/;
// "clang++-19: error: unsupported CUDA gpu architecture: sm_12", "fatal error: error in backend: …"
const CLANG_FATAL = /^(?:clang[+\w-]{0,20}: |fatal )error: (.*)$/;
/** nvcc prints no column, but a caret under the source line shows it. The caret's line is indented by two spaces. */
const CARET = /^ {2}(\s*)\^/;

/** Parses nvcc's output: its own messages, ptxas's, and those of the host compiler that it runs as preprocessor. */
export function parseNvccDiagnostics(lines: readonly string[]): CompilerDiagnostic[] {
  const found: CompilerDiagnostic[] = [];
  let awaitsCaret: CompilerDiagnostic | undefined;
  for (const line of lines) {
    const diagnostic = nvccDiagnostic(line) ?? ptxasDiagnostic(line) ?? gnuDiagnostic(line, 'nvcc');
    if (diagnostic) {
      found.push(diagnostic);
      awaitsCaret = diagnostic.column === 0 && diagnostic.line > 0 ? diagnostic : undefined;
      continue;
    }
    const caret = CARET.exec(line);
    if (!caret || !awaitsCaret) continue;
    awaitsCaret.column = caret[1]!.length + 1;
    awaitsCaret = undefined;
  }
  return found.slice(0, MAX_DIAGNOSTICS);
}

/** Parses NVRTC's output; NVRTC has nvcc's front end. */
export const parseNvrtcDiagnostics = (lines: readonly string[]): CompilerDiagnostic[] =>
  parseNvccDiagnostics(lines).map((found) => (found.tool === 'nvcc' ? { ...found, tool: 'nvrtc' } : found));

/** Whether one of the parsers in this file accepts the line as a message. */
export const isDiagnosticLine = (line: string): boolean =>
  (nvccDiagnostic(line) ?? ptxasDiagnostic(line) ?? gnuDiagnostic(line, 'g++') ?? assemblerDiagnostic(line)) !==
  undefined;

/** Whether a line is an error with a file and a line number. */
export const isPlacedError = (line: string): boolean => isPlaced(line, 'error');

/** Whether a line is a message with a file and a line number and, if `severity` is given, of that severity. */
export function isPlaced(line: string, severity?: CompilerDiagnostic['severity']): boolean {
  const found = nvccDiagnostic(line) ?? gnuDiagnostic(line, 'g++') ?? assemblerDiagnostic(line);
  return found !== undefined && found.line > 0 && (severity === undefined || found.severity === severity);
}

/** Whether a line has nothing but the caret that nvcc prints under a source line. */
export const isCaretLine = (line: string): boolean => /^\s*\^\s*$/.test(line);

/** Parses clang++'s output about CUDA. Leaves out the line with the number of errors, which has no source location. */
export const parseClangDiagnostics = (lines: readonly string[]): CompilerDiagnostic[] =>
  lines.flatMap((line) => gnuDiagnostic(line, 'clang++') ?? clangFatal(line) ?? []).slice(0, MAX_DIAGNOSTICS);

/** Parses the output of tools/compile_triton.py. */
export const parseTritonDiagnostics = (lines: readonly string[]): CompilerDiagnostic[] =>
  lines.flatMap((line) => gnuDiagnostic(line, 'triton') ?? []).slice(0, MAX_DIAGNOSTICS);

/** Parses the output of g++ or clang++. */
export function parseGnuDiagnostics(lines: readonly string[]): CompilerDiagnostic[] {
  return lines
    .flatMap((line) => gnuDiagnostic(line, 'g++') ?? assemblerDiagnostic(line) ?? [])
    .slice(0, MAX_DIAGNOSTICS);
}

function nvccDiagnostic(line: string): CompilerDiagnostic | undefined {
  const match = NVCC.exec(line);
  if (match)
    return {
      severity: severityOf(match[3]!),
      file: match[1]!,
      line: Number(match[2]),
      column: 0,
      message: match[5]!,
      tool: 'nvcc',
    };
  const fatal = NVCC_FATAL.exec(line);
  return fatal
    ? { severity: severityOf(fatal[1]!), file: '', line: 0, column: 0, message: fatal[2]!, tool: 'nvcc' }
    : undefined;
}

function ptxasDiagnostic(line: string): CompilerDiagnostic | undefined {
  const placed = PTXAS_PLACE.exec(line);
  // Leaves out the location, which is in a temporary PTX file and says nothing about the source.
  if (placed)
    return { severity: severityOf(placed[3]!), file: '', line: 0, column: 0, message: placed[4]!, tool: 'ptxas' };
  const match = PTXAS.exec(line);
  return match
    ? { severity: severityOf(match[1]!), file: '', line: 0, column: 0, message: match[2]!, tool: 'ptxas' }
    : undefined;
}

function clangFatal(line: string): CompilerDiagnostic | undefined {
  const message = CLANG_FATAL.exec(line)?.[1];
  return message === undefined
    ? undefined
    : { severity: 'error', file: '', line: 0, column: 0, message, tool: 'clang++' };
}

function gnuDiagnostic(line: string, tool: 'nvcc' | 'clang++' | 'g++' | 'triton'): CompilerDiagnostic | undefined {
  const match = GNU.exec(line);
  if (!match) return undefined;
  return {
    severity: severityOf(match[4]!),
    file: match[1]!,
    line: Number(match[2]),
    column: Number(match[3] ?? 0),
    message: match[5]!,
    tool,
  };
}

function assemblerDiagnostic(line: string): CompilerDiagnostic | undefined {
  const match = GNU_AS.exec(line);
  return match
    ? {
        severity: severityOf(match[3]!.toLowerCase()),
        file: match[1]!,
        line: Number(match[2]),
        column: 0,
        message: match[4]!,
        tool: 'as',
      }
    : undefined;
}

function severityOf(word: string): CompilerDiagnostic['severity'] {
  if (word === 'warning') return 'warning';
  return word === 'note' || word === 'remark' ? 'note' : 'error';
}

export interface Place {
  readonly file: string;
  /** From 1; 0 if unknown. */
  readonly line: number;
  /** From 1; 0 if unknown. */
  readonly column: number;
}

export interface SourceText {
  readonly path: string;
  readonly text: string;
}

const LINES_AROUND = 1;
const MAX_LINE_CHARACTERS = 1000;
const TAB = '  ';

/**
 * Three lines of the compiled source around a location, which say more than a line number; undefined if the location is
 * unknown or not in these files.
 */
export function codeFrame(files: readonly SourceText[], { file, line, column }: Place): CodeFrame | undefined {
  const lines = files.find(({ path }) => path === file)?.text.split('\n');
  const meant = lines?.[line - 1];
  if (lines === undefined || meant === undefined) return undefined;
  const firstLine = Math.max(1, line - LINES_AROUND);
  return create(CodeFrameSchema, {
    file,
    line,
    // Each tab before the column becomes two spaces.
    column: column === 0 ? 0 : column + tabsIn(meant.slice(0, column - 1)) * (TAB.length - 1),
    firstLine,
    lines: lines.slice(firstLine - 1, line + LINES_AROUND).map(shownLine),
  });
}

const tabsIn = (text: string): number => text.split('\t').length - 1;
const shownLine = (text: string): string => plainLine(text.replaceAll('\t', TAB)).slice(0, MAX_LINE_CHARACTERS);
