/**
 * Checks the promise of docs/versions.md about file formats: later versions accept everything that a released version
 * accepts, and nothing becomes required. `npm run released` writes released-formats.json from the schemas.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import * as z from 'zod';
import { problemSchema } from '../problems/problem-schema.ts';
import { gatesFileSchema } from './gates/gates-file.ts';
import { manifestSchema } from './manifest-schema.ts';

const FILE = join(import.meta.dirname, 'released-formats.json');
const SCHEMAS = {
  'kernel.yaml': manifestSchema,
  'problem.yaml': problemSchema,
  'gates.yaml': gatesFileSchema,
} satisfies Record<string, z.ZodType>;

/** Keys and values by path, such as `launches[].grid` or `dtype = fp16`, and whether a file needs them. */
type Format = Record<string, 'required' | 'optional'>;

interface JsonSchema {
  readonly properties?: Record<string, JsonSchema>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly prefixItems?: readonly JsonSchema[];
  readonly additionalProperties?: JsonSchema | boolean;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly allOf?: readonly JsonSchema[];
}

function formatOf(schema: z.ZodType): Format {
  const format: Format = {};
  const add = (path: string, need: 'required' | 'optional'): void => {
    if (format[path] !== 'required') format[path] = need;
  };
  const walk = (part: JsonSchema, path: string): void => {
    for (const [key, value] of Object.entries(part.properties ?? {})) {
      const at = path === '' ? key : `${path}.${key}`;
      add(at, part.required?.includes(key) ? 'required' : 'optional');
      walk(value, at);
    }
    for (const value of [...(part.enum ?? []), ...('const' in part ? [part.const] : [])])
      add(`${path} = ${String(value)}`, 'optional');
    for (const item of [...(part.items ? [part.items] : []), ...(part.prefixItems ?? [])]) walk(item, `${path}[]`);
    if (typeof part.additionalProperties === 'object') walk(part.additionalProperties, `${path}.*`);
    for (const each of [...(part.anyOf ?? []), ...(part.oneOf ?? []), ...(part.allOf ?? [])]) walk(each, path);
  };
  walk(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', reused: 'inline' }) as JsonSchema, '');
  return format;
}

/** Reasons why a valid file of the released format would now be refused. */
function breaks(released: Format, now: Format): string[] {
  return [
    ...Object.keys(released)
      .filter((path) => !Object.hasOwn(now, path))
      .map((path) => `${path} is gone`),
    ...Object.entries(now)
      .filter(([path, need]) => need === 'required' && released[path] !== 'required' && hasParent(released, path))
      .map(([path]) => `${path} became required`),
  ];
}

/** A required key is allowed only below a new key. */
const hasParent = (released: Format, path: string): boolean => {
  const parent = path.slice(0, Math.max(0, path.lastIndexOf('.'))).replace(/(\[\]|\.\*)+$/, '');
  return parent === '' || Object.hasOwn(released, parent);
};

const current = Object.fromEntries(Object.entries(SCHEMAS).map(([name, schema]) => [name, formatOf(schema)]));
if (process.env['FLASHCORE_RELEASED'] === 'write') writeFileSync(FILE, `${JSON.stringify(current, null, 2)}\n`);
const released = JSON.parse(readFileSync(FILE, 'utf8')) as Record<string, Format>;

test.for(Object.keys(SCHEMAS))('%s accepts everything that the released version accepts', (name) => {
  expect(Object.keys(released[name]!).length).toBeGreaterThan(20);
  expect(breaks(released[name]!, current[name]!)).toEqual([]);
});

test('finds removed keys and values and keys that become required, and allows new ones', () => {
  const old = z.strictObject({ a: z.enum(['x', 'y']), b: z.array(z.strictObject({ c: z.string().optional() })) });
  const after = (schema: z.ZodType) => breaks(formatOf(old), formatOf(schema));
  const c = z.string().optional();
  const b = z.array(z.strictObject({ c }));
  expect(after(z.strictObject({ a: z.enum(['x']), b }))).toEqual(['a = y is gone']);
  expect(after(z.strictObject({ a: z.enum(['x', 'y']) }))).toEqual(['b is gone', 'b[].c is gone']);
  const needed = z.array(z.strictObject({ c: z.string() }));
  expect(after(z.strictObject({ a: z.enum(['x', 'y']), b: needed }))).toEqual(['b[].c became required']);
  expect(after(z.strictObject({ a: z.enum(['x', 'y']), b, d: z.string() }))).toEqual(['d became required']);
  const added = z.strictObject({ e: z.string() }).optional();
  expect(after(z.strictObject({ a: z.enum(['x', 'y', 'z']), b, d: added }))).toEqual([]);
});
