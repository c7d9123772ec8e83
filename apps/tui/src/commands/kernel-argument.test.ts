import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { otherName, parseKernelArgument } from './kernel-argument.ts';

const V6 = fileURLToPath(new URL('../../../../kernels/flashcore_v6', import.meta.url));
let copies: string;
beforeAll(() => {
  copies = mkdtempSync(path.join(tmpdir(), 'fa-'));
  for (const name of ['flashcore_v6', 'mine']) cpSync(V6, path.join(copies, name), { recursive: true });
});
afterAll(() => rmSync(copies, { recursive: true }));

test("a copied folder that still has the original's id is reported, and a folder with its own id is not", async () => {
  const noteFor = async (text: string) => otherName(await parseKernelArgument(text));
  expect(await noteFor(path.join(copies, 'mine'))).toBe(
    'The folder mine runs as flashcore_v6, which its kernel.yaml gives as id: results and history have it under that name',
  );
  expect([
    await noteFor(path.join(copies, 'flashcore_v6')),
    await noteFor('flashcore_v6'),
    await noteFor('ab'.repeat(32)),
  ]).toEqual(['', '', '']);
});
