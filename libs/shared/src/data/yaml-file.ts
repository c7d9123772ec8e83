/** YAML files with a schema. Each fault names the file, the line, the key, the wanted value and the found value. */
import { isNode, isScalar, LineCounter, parseDocument, visit } from 'yaml';
import * as z from 'zod';
import { type FieldViolation, FlashcoreError } from '../contract/errors.ts';
import { didYouMean } from '../text/nearest-names.ts';

const MAX_BYTES = 24 * 1024;
/** Limit on reported faults: nobody reads more, and each one costs a search for its line. */
export const MAX_FAULTS = 20;
/** Default limit for lists and mappings. */
const MAX_ELEMENTS = 64;
/** Maximum length of a foreign name in a text. */
const MAX_SHOWN = 80;

/** A fault at a place in the file; `key` is the path to it. */
export interface YamlFault {
  key: (string | number)[];
  message: string;
}

/** A parsed YAML text that fits its schema, and a way to refuse it for reasons that a schema cannot express. */
export interface YamlFile<Value> {
  value: Value;
  /** The line of a key, or of the nearest key above it. */
  lineOf(key: (string | number)[]): number | undefined;
  /** Returns the INVALID_MANIFEST error for these faults. */
  refuse(faults: YamlFault[]): FlashcoreError;
}

/** Parses a YAML text. `path` is used only in texts. Errors: INVALID_MANIFEST with metadata path and key. */
export function parseYamlFile<Schema extends z.ZodType>(
  text: string,
  path: string,
  schema: Schema,
): YamlFile<z.output<Schema>> {
  if (Buffer.byteLength(text) > MAX_BYTES)
    throw fileError(path, `must have at most ${MAX_BYTES} bytes, got ${Buffer.byteLength(text)}`);
  const lines = new LineCounter();
  const document = documentOf(text, lines, path);
  const [broken] = [...document.errors, ...document.warnings];
  if (broken)
    throw fileError(
      path,
      `line ${lines.linePos(broken.pos[0]).line}: not valid ${formatOf(path)}: ${/call stack/.test(broken.message) ? TOO_DEEP : broken.message}`,
      broken,
    );
  refuseRepeatedKeys(document, lines, path);
  refuseCycles(document, lines, path);

  const lineOf = (key: (string | number)[]): number | undefined => {
    for (let length = key.length; length > 0; --length) {
      const node: unknown = document.getIn(key.slice(0, length), true);
      if (isNode(node) && node.range) return lines.linePos(node.range[0]).line;
    }
    return undefined;
  };
  const refuse = (faults: YamlFault[]) => faultsError(path, faults.slice(0, MAX_FAULTS), lineOf);
  const parsed = schema.safeParse(toPlain(document, path));
  if (!parsed.success)
    throw refuse(
      parsed.error.issues
        .slice(0, MAX_FAULTS)
        .map((issue) => ({ key: issue.path as (string | number)[], message: issue.message })),
    );
  return { value: parsed.data, lineOf, refuse };
}

/** An object schema that refuses unknown keys and names the nearest known key. */
export function strict<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? issue.keys
            .slice(0, MAX_FAULTS)
            .map(
              (key) =>
                `unknown key "${shown(key)}"${didYouMean(key, Object.keys(shape)) || `: known are ${Object.keys(shape).join(', ')}`}`,
            )
            .join('; ')
        : mustBe('a mapping', issue.input),
  });
}

/** Schemas of plain values whose texts say what the value must be and what it is. */
export const text = () =>
  z
    .string({ error: (issue) => mustBe('a text', issue.input) })
    .trim()
    .min(1, 'must be a text, got an empty one');
export const integer = (least: number, most: number) => {
  const error = (issue: { input?: unknown }) => mustBe(`an integer of ${least} to ${most}`, issue.input);
  return z
    .number({ error })
    .refine((value) => Number.isInteger(value) && value >= least && value <= most, { error })
    .meta({ type: 'integer', minimum: least, maximum: most });
};
export const finite = () => z.number({ error: (issue) => mustBe('a number', issue.input) });
export const flag = () => z.boolean({ error: (issue) => mustBe('true or false', issue.input) });
export const oneOf = <const Names extends readonly [string, ...string[]]>(names: Names) =>
  z.enum(names, {
    error: (issue) =>
      `${mustBe(`one of ${names.join(', ')}`, issue.input)}${typeof issue.input === 'string' ? didYouMean(issue.input, names) : ''}`,
  });
export const matching = (pattern: RegExp, what: string) =>
  z
    .string({ error: (issue) => mustBe(what, issue.input) })
    .regex(pattern, { error: (issue) => mustBe(what, issue.input) });
export const listOf = <Item extends z.ZodType>(item: Item, most = MAX_ELEMENTS) =>
  z.array(item, { error: (issue) => mustBe('a list', issue.input) }).refine((list) => list.length <= most, {
    abort: true,
    error: (issue) => `must have at most ${most} elements, got ${(issue.input as unknown[]).length}`,
  });
export const mapOf = <Key extends z.core.$ZodRecordKey, Value extends z.ZodType>(
  key: Key,
  value: Value,
  most = MAX_ELEMENTS,
) =>
  z
    .record(key, value, {
      error: (issue) =>
        (issue.code === 'invalid_key' ? issue.issues[0]?.message : undefined) ?? mustBe('a mapping', issue.input),
    })
    .refine((map) => Object.keys(map).length <= most, {
      abort: true,
      error: (issue) => `must have at most ${most} keys, got ${Object.keys(issue.input as object).length}`,
    });

/** Formats "must be …, got …". */
export function mustBe(what: string, found: unknown): string {
  return `must be ${what}, got ${describe(found)}`;
}

function describe(value: unknown): string {
  if (value === undefined || value === null) return 'nothing';
  return shown(JSON.stringify(shallow(value)) ?? typeof value);
}

/** A copy without the deeper levels: JSON from outside can be nested deeper than the stack allows. */
function shallow(value: unknown, levels = 4): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (levels === 0) return '…';
  if (Array.isArray(value)) return value.slice(0, MAX_SHOWN).map((each) => shallow(each, levels - 1));
  const entries = Object.entries(value).slice(0, MAX_SHOWN);
  return Object.fromEntries(entries.map(([name, each]) => [name, shallow(each, levels - 1)]));
}

/** Shortens a foreign text. */
export const shown = (text: string): string => (text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN - 1)}…` : text);

/** Formats a key for texts, such as `launches[0].grid`. */
export function formatKey(key: (string | number)[]): string {
  return key.map((part, index) => (typeof part === 'number' ? `[${part}]` : `${index > 0 ? '.' : ''}${part}`)).join('');
}

/** Parses without `uniqueKeys`, because `yaml` compares each key with all keys before it; we use a set instead. */
function documentOf(text: string, lineCounter: LineCounter, path: string): ReturnType<typeof parseDocument> {
  try {
    return parseDocument(text, { lineCounter, prettyErrors: false, uniqueKeys: false });
  } catch (cause) {
    // The parser is recursive, so deep nesting exhausts its stack.
    if (cause instanceof RangeError) throw fileError(path, `not usable ${formatOf(path)}: ${TOO_DEEP}`, cause);
    throw cause;
  }
}

const TOO_DEEP = 'it is nested too deeply';

/** JSON is read as YAML too. */
const formatOf = (path: string): string => (/\.jsonl?(?:,|$)/.test(path) ? 'JSON' : 'YAML');

function refuseRepeatedKeys(document: ReturnType<typeof parseDocument>, lines: LineCounter, path: string): void {
  visit(document, {
    Map(_, map) {
      const seen = new Set<string>();
      for (const { key } of map.items) {
        if (!isScalar(key)) continue;
        const name = String(key.value);
        if (seen.has(name)) {
          const line = lines.linePos(key.range?.[0] ?? 0).line;
          throw fileError(path, `line ${line}: not valid ${formatOf(path)}: the key "${shown(name)}" appears twice`);
        }
        seen.add(name);
      }
    },
  });
}

/** Refuses values that contain themselves, because walking or printing them would never end. */
function refuseCycles(document: ReturnType<typeof parseDocument>, lines: LineCounter, path: string): void {
  visit(document, {
    Alias(_, { source, range }, around) {
      if (around.some((node) => isNode(node) && 'anchor' in node && node.anchor === source))
        throw fileError(
          path,
          `line ${lines.linePos(range?.[0] ?? 0).line}: not usable YAML: the value "&${shown(source)}" contains itself`,
        );
    },
  });
}

function toPlain(document: ReturnType<typeof parseDocument>, path: string): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    throw fileError(path, `not usable YAML: ${(error as Error).message}`, error);
  }
}

const fileError = (path: string, message: string, cause?: unknown) =>
  new FlashcoreError('INVALID_MANIFEST', { path }, `${path}: ${message}`, {
    cause,
    violations: [{ field: path, description: message }],
  });

function faultsError(
  path: string,
  faults: YamlFault[],
  lineOf: (key: (string | number)[]) => number | undefined,
): FlashcoreError {
  const violations: FieldViolation[] = faults.map(({ key, message }) => ({
    field: formatKey(key),
    description: message,
  }));
  const lines = faults.map(({ key, message }) => {
    const line = lineOf(key);
    return `${path}${line === undefined ? '' : `:${line}`}: ${key.length > 0 ? `${formatKey(key)}: ` : ''}${message}`;
  });
  return new FlashcoreError('INVALID_MANIFEST', { path, key: violations[0]?.field ?? '' }, lines.join('\n'), {
    violations,
  });
}
