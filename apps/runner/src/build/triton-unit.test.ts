import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseManifest, resolveVariant } from '@flashcore/shared/kernels';
import { edited } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { sharedBytesIn, tritonTypes } from './triton-unit.ts';

const PATH = join(import.meta.dirname, '../../../../test/fixtures/triton/matmul/kernel.yaml');
const TEXT = readFileSync(PATH, 'utf8');

function typesWith(limit: string): string[] {
  const manifest = parseManifest(
    edited(TEXT, 'parameters:', `limits: [{ require: "${limit}", because: tiles }]\nparameters:`),
    PATH,
  );
  return tritonTypes(manifest, resolveVariant(manifest));
}

test('integers that limits make multiples of 16 are declared so, and no others', () => {
  const tensors = ['*fp16', '*fp16', '*fp16'];
  expect(typesWith('K % 32 == 0 && N % 16 == 0')).toEqual([...tensors, 'i32', 'i32:16', 'i32:16']);
  expect(typesWith('K % 24 == 0')).toEqual([...tensors, 'i32', 'i32', 'i32']);
  expect(typesWith('K % 16 == 0 || N % 16 == 0')).toEqual([...tensors, 'i32', 'i32', 'i32']);
  expect(typesWith('K % 16 == 8')).toEqual([...tensors, 'i32', 'i32', 'i32']);
});

test('the dynamic shared memory is read from the first line of the PTX', () => {
  expect(sharedBytesIn('// flashcore: 4096 bytes of dynamic shared memory\n.version 8.7\n')).toBe(4096);
  expect(sharedBytesIn('.version 8.7\n')).toBe(0);
});
