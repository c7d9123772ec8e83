/** Joins a kernel's sources into one text: every header replaces its first include. */
import path from 'node:path';
import type { SourceText } from './exported-kernel.ts';

const INCLUDE = /^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)[^\n]*$/gm;
const PRAGMA_ONCE = /^[ \t]*#[ \t]*pragma[ \t]+once[^\n]*\n?/gm;

/** `sources` begins with the translation unit. Includes of other files (CUDA's headers) stay unchanged. */
export function inlineSources(sources: readonly SourceText[]): string {
  const byPath = new Map(sources.map((source) => [source.path, source]));
  const written = new Set<string>();
  const inline = ({ path: file, text }: SourceText): string => {
    written.add(file);
    return text.replace(PRAGMA_ONCE, '').replaceAll(INCLUDE, (line, quoted?: string, angled?: string) => {
      const named = quoted ?? angled!;
      const found = [path.posix.join(path.posix.dirname(file), named), named].find((each) => byPath.has(each));
      if (found === undefined) return line;
      return written.has(found) ? `// ${found}: above` : `// ${found}\n${inline(byPath.get(found)!)}`;
    });
  };
  return inline(sources[0]!);
}

/**
 * Removes comments, because KernelBench's checker reads text rather than C++ and would take words in them for tricks.
 * Lines are kept, so that a compiler's message still points to the right line.
 */
export function withoutComments(source: string): string {
  const TOKEN = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\/\/[^\n]*|\/\*[^]*?\*\//g;
  return source
    .replaceAll(TOKEN, (token) => (token.startsWith('/') ? token.replaceAll(/[^\n]/g, '') : token))
    .replaceAll(/[ \t]+$/gm, '');
}

/** Renames an identifier if it is a separate token outside of strings. */
export function renameToken(source: string, from: string, to: string): string {
  return source.replaceAll(new RegExp(`"(?:[^"\\\\\\n]|\\\\.)*"|\\b${from}\\b`, 'g'), (token) =>
    token === from ? to : token,
  );
}
