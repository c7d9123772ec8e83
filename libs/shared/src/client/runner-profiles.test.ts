import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { RunnerProfiles } from './runner-profiles.ts';

let folder: string;
let profiles: RunnerProfiles;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'fc-profiles-'));
  profiles = new RunnerProfiles({ FLASHCORE_CONFIG: join(folder, 'runners.json') });
  for (const name of ['ca.crt', 'client.crt', 'client.key']) writeFileSync(join(folder, name), name);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const write = (text: string, mode = 0o600) => writeFileSync(profiles.file, text, { mode });

test('without the file there are no profiles', () => {
  expect([profiles.list(), profiles.find('gpu-box:1'), profiles.remove('x')]).toEqual([{}, undefined, false]);
  expect(['toString', '__proto__'].map((name) => profiles.remove(name))).toEqual([false, false]);
});

test('a runner is found by name, by address, and by a name that is also its address', () => {
  write(
    JSON.stringify({
      box: { address: '10.0.0.5:1', ca: 'ca.crt', token: 't' },
      'gpu-box:1': { ca: 'ca.crt', cert: 'client.crt', key: 'client.key' },
    }),
  );
  const box = {
    name: 'box',
    address: '10.0.0.5:1',
    security: { authority: Buffer.from('ca.crt'), certificate: undefined, key: undefined, token: 't' },
  };
  const other = {
    name: 'gpu-box:1',
    address: 'gpu-box:1',
    security: {
      authority: Buffer.from('ca.crt'),
      certificate: Buffer.from('client.crt'),
      key: Buffer.from('client.key'),
      token: undefined,
    },
  };
  expect(['box', '10.0.0.5:1', 'gpu-box:1', 'gpu-box:2', 'constructor'].map((text) => profiles.find(text))).toEqual([
    box,
    box,
    other,
    undefined,
    undefined,
  ]);
});

test('save() copies all files for the owner only, and remove() deletes all of them', () => {
  profiles.save({ name: 'old', address: 'a:1', token: 'kept' });
  const given = (name: string) => join(folder, name);
  profiles.save({
    name: 'box',
    address: '10.0.0.5:1',
    ca: given('ca.crt'),
    cert: given('client.crt'),
    key: given('client.key'),
  });
  rmSync(given('client.key'));
  expect(profiles.find('box')?.security.key?.toString()).toBe('client.key');
  const kept = join(folder, 'runners', 'box');
  expect(
    [profiles.file, ...readdirSync(kept).map((name) => join(kept, name))].map((file) => statSync(file).mode & 0o777),
  ).toEqual([0o600, 0o600, 0o600, 0o600]);
  expect(statSync(kept).mode & 0o777).toBe(0o700);
  // A second login uses the files of the previous login.
  profiles.save({ name: 'box', address: '10.0.0.5:2', ca: join(kept, 'ca.crt') });
  expect(profiles.find('box')).toMatchObject({
    address: '10.0.0.5:2',
    security: { authority: Buffer.from('ca.crt'), certificate: undefined },
  });
  expect([profiles.remove('box'), readdirSync(join(folder, 'runners')), Object.keys(profiles.list())]).toEqual([
    true,
    ['old'],
    ['old'],
  ]);
  expect(readFileSync(profiles.file, 'utf8')).not.toContain('10.0.0.5');
});

test.for(['{', '[]', '{"a:1":{"cert":"client.crt"}}', '{"a:1":{"certificate":"x"}}', '{"a:1":{"ca":"none.crt"}}'])(
  'a profiles file with the content %s is refused, and the error names the file',
  (text) => {
    write(text);
    expect(() => profiles.find('a:1')).toThrow(profiles.file);
  },
);

test('a file that others can read is neither read nor written', () => {
  write('{}', 0o644);
  for (const use of [
    () => profiles.find('a:1'),
    () => profiles.list(),
    () => profiles.save({ name: 'a', address: 'a:1' }),
    () => profiles.remove('a'),
  ])
    expect(use).toThrow(`chmod 600 ${profiles.file}`);
});
