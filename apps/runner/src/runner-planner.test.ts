import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatShape } from '@flashcore/shared/kernels';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readHeldOut } from './runner-planner.ts';
import { UsageError } from '@flashcore/shared/contract';

let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), 'held-out-'))));
afterAll(() => rmSync(folder, { recursive: true }));

test("held-out shapes are read from the host's file, and without a file there are none", () => {
  const path = join(folder, 'held-out.yaml');
  writeFileSync(path, 'shapes:\n  - { B: 1, H: 12, S: 1111, D: 64, causal: true }\n');
  expect(readHeldOut(path).map(formatShape)).toEqual(['1x12x1111x64c']);
  expect(readHeldOut(undefined)).toEqual([]);
});

test.each([
  ['shapes: []', /must have at least one shape/],
  ['shapes: [{ B: 0, H: 1, S: 1, D: 64, causal: false }]', /B/],
  ['sets: {}', /shapes|sets/],
])('a runner does not start with %s', (text, expected) => {
  const path = join(folder, 'wrong.yaml');
  writeFileSync(path, text);
  expect(() => readHeldOut(path)).toThrow(UsageError);
  expect(() => readHeldOut(path)).toThrow(expected);
});

test('a missing file of held-out shapes is a usage error', () => {
  expect(() => readHeldOut(join(folder, 'none.yaml'))).toThrow(/^--held-out .*none\.yaml: cannot be read \(ENOENT\)$/);
});
