/** Finds the lines of a kernel's source in which an axis or attribute takes effect. */
import type { SourceText } from '../build/diagnostics.ts';

/** More lines would not help a reader. */
const MOST_LINES = 3;

/**
 * The lines of a source, from 1, that use one of the variables, or call a method of a struct that does; empty if there
 * are many. A line that only passes a variable to a function or a struct counts if no other does.
 */
export function linesOfUse(sources: readonly SourceText[], file: string, names: readonly string[]): number[] {
  const lines = codeLines(sources.find(({ path }) => path === file));
  const methods = sources.flatMap((source) => dependentMethods(codeLines(source).join('\n'), names));
  const numbersOf = (has: (line: string) => boolean): number[] =>
    lines.flatMap((line, index) => (has(line) ? [index + 1] : []));
  const uses = numbersOf(
    (line) => names.some((name) => isUsed(line, name)) || methods.some((method) => isCalled(line, method)),
  );
  const found = uses.length > 0 ? uses : numbersOf((line) => names.some((name) => isRead(line, name)));
  return found.length <= MOST_LINES ? found : [];
}

const STRING = String.raw`"(?:[^"\\]|\\.)*"?`;
/**
 * Texts in which a name does not use the variable: strings, characters and comments. One that does not end matches,
 * too, or the search would take quadratic time.
 */
const NOT_CODE = new RegExp(String.raw`${STRING}|'(?:[^'\\]|\\.){1,4}'|//.*|/\*.*?(?:\*/|$)`, 'g');
const NOT_PYTHON_CODE = new RegExp(String.raw`${STRING}|'(?:[^'\\]|\\.)*'?|#.*`, 'g');

/** The lines without their strings and comments. */
function codeLines(source: SourceText | undefined): string[] {
  const notCode = source?.path.endsWith('.py') ? NOT_PYTHON_CODE : NOT_CODE;
  return (source?.text ?? '').split('\n').map((line) => line.replace(notCode, ''));
}

const isCalled = (line: string, method: string): boolean => new RegExp(`(?:\\.|->)${method}\\(`).test(line);

/** Whether a line reads a variable: it has its name, other than in a declaration without a value. */
function isRead(line: string, name: string): boolean {
  const declared = new RegExp(`\\w[\\s*&]+${name}\\s*(?:[,;)]|$)`).test(line) && !/\breturn\b/.test(line);
  return new RegExp(`\\b${name}\\b`).test(line) && !declared;
}

/** Whether a line computes with a variable or decides by it, rather than copying it or passing it on. */
function isUsed(line: string, name: string): boolean {
  const rest = line.replace(new RegExp(`\\b${name}\\s*=\\s*(?:\\w+(?:\\.|->))?${name}\\b`, 'g'), '');
  if (!isRead(rest, name)) return false;
  const decides = new RegExp(`\\b(?:if|while|switch|return|min|max)\\s*\\([^()]*\\b${name}\\b`).test(rest);
  return decides || rest.replace(new RegExp(`(?<=^\\s*|[(,{]\\s*)${name}(?=\\s*(?:[),}]|$))`, 'g'), '') === rest;
}

/** The methods of structs that use one of the names, directly or through another method. */
function dependentMethods(code: string, names: readonly string[]): string[] {
  const methods = [...code.matchAll(/\bstruct\s+\w+[^;{]*\{/g)].flatMap((struct) =>
    methodsOf(bodyFrom(code, struct.index + struct[0].length)),
  );
  const found = new Set<string>();
  const dependent = ({ name, body }: Method): boolean =>
    !found.has(name) && [...names, ...found].some((used) => new RegExp(`\\b${used}\\b`).test(body));
  for (let next = methods.find(dependent); next !== undefined; next = methods.find(dependent)) found.add(next.name);
  return [...found];
}

interface Method {
  readonly name: string;
  readonly body: string;
}

const methodsOf = (struct: string): Method[] =>
  [...struct.matchAll(/\b(\w+)\s*\([^()]*\)\s*(?:const\s*)?\{/g)].map((head) => ({
    name: head[1]!,
    body: bodyFrom(struct, head.index + head[0].length),
  }));

/** The text up to the brace that closes the one before `start`. */
function bodyFrom(code: string, start: number): string {
  let depth = 1;
  for (let at = start; at < code.length; at += 1) {
    if (code[at] === '{') depth += 1;
    if (code[at] === '}') depth -= 1;
    if (depth === 0) return code.slice(start, at);
  }
  return code.slice(start);
}
