import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { OwnKernels } from '../settings/own-kernels.ts';
import { knownNames } from './known-names.ts';
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

test('a folder that was sent to a runner before is named by its id, which is completed; the installation comes first', async () => {
  const environment = { ...process.env, FLASHCORE_HOME: path.join(copies, 'home') };
  const own = (name: string): string => {
    const folder = path.join(copies, name);
    cpSync(V6, folder, { recursive: true });
    const manifest = path.join(folder, 'kernel.yaml');
    writeFileSync(manifest, readFileSync(manifest, 'utf8').replace('id: flashcore_v6', 'id: my_own'));
    new OwnKernels(environment).remember(folder);
    return folder;
  };
  new OwnKernels(environment).remember(path.join(copies, 'flashcore_v6'));
  const folder = own('my_own');
  expect(await parseKernelArgument('my_own', environment)).toEqual({
    kind: 'folder',
    folder,
    id: 'my_own',
    byName: true,
  });
  expect(await parseKernelArgument('flashcore_v6', environment)).toEqual({ kind: 'id', id: 'flashcore_v6' });
  expect((await knownNames(environment, undefined)('kernel', '')).map(({ word }) => word)).toEqual(
    expect.arrayContaining(['flashcore_v7', 'my_own']),
  );
  own('my_own_too');
  await expect(parseKernelArgument('my_own', environment)).rejects.toThrow(
    /my_own: several of your folders have this id/,
  );
});

test('a damaged list of folders is reported along with the name that it may have had', async () => {
  const environment = { ...process.env, FLASHCORE_HOME: path.join(copies, 'damaged') };
  const own = new OwnKernels(environment);
  own.remember(path.join(copies, 'flashcore_v6'));
  const [file = ''] = globSync(path.join(copies, 'damaged', '**', 'fa-tui-folders.json'));
  writeFileSync(file, '{');
  const kernel = await parseKernelArgument('not_installed', environment);
  expect(kernel).toMatchObject({ kind: 'id', id: 'not_installed' });
  expect(otherName(kernel)).toMatch(
    /^The list of your kernel folders could not be read \(.+\): the file is now .+unreadable\. If not_installed is a kernel of yours, give its folder, which lists it again$/,
  );
});
