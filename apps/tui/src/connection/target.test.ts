import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { resolveTarget, type TlsFlags } from './target.ts';

let folder: string;
const file = (name: string) => path.join(folder, name);
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'fa-'));
  for (const name of ['ca.crt', 'other.crt', 'client.crt', 'client.key'])
    writeFileSync(file(name), name, { mode: 0o600 });
  writeFileSync(file('open.key'), 'open.key', { mode: 0o644 });
  writeFileSync(file('runners.json'), JSON.stringify({ box: { address: '10.0.0.5:1', ca: 'ca.crt', token: 't' } }), {
    mode: 0o600,
  });
});
afterAll(() => rmSync(folder, { recursive: true }));

const resolve = (asked: string, flags: TlsFlags = {}, environment: Record<string, string> = {}) => {
  const { security, ...target } = resolveTarget(asked, flags, {
    FLASHCORE_CONFIG: file('runners.json'),
    ...environment,
  });
  const texts =
    security &&
    Object.fromEntries(
      Object.entries(security).flatMap(([key, value]) => (value === undefined ? [] : [[key, String(value)]])),
    );
  return { ...target, security: texts };
};

test('a name or its address selects the login; another address is used without a login', () => {
  const box = { name: 'box', address: '10.0.0.5:1', security: { authority: 'ca.crt', token: 't' } };
  expect([resolve('box'), resolve('10.0.0.5:1'), resolve('10.0.0.5:2')]).toEqual([
    box,
    box,
    { name: undefined, address: '10.0.0.5:2', security: undefined },
  ]);
});

test('flags override the environment, which overrides the login; a certificate replaces a token', () => {
  const certificate = { tlsCert: file('client.crt'), tlsKey: file('client.key') };
  expect(resolve('box', { tlsCa: file('other.crt') }).security).toEqual({ authority: 'other.crt', token: 't' });
  expect(resolve('box', certificate).security).toEqual({
    authority: 'ca.crt',
    certificate: 'client.crt',
    key: 'client.key',
  });
  expect(
    resolve('box', { tlsCa: file('other.crt') }, { FLASHCORE_TLS_CA: file('ca.crt'), FLASHCORE_TOKEN: 'u' }).security,
  ).toEqual({ authority: 'other.crt', token: 'u' });
  expect(resolve('gpu:1', {}, { FLASHCORE_TLS_CA: file('ca.crt'), FLASHCORE_TOKEN: 'u' }).security).toEqual({
    authority: 'ca.crt',
    token: 'u',
  });
  expect(resolve('unix:/s', {}, { FLASHCORE_TOKEN: 'u' }).security).toBeUndefined();
});

test.each<[string, () => unknown, string]>([
  ['a name that no login has', () => resolve('bx'), 'fa-tui login knows box (did you mean "box"?)'],
  [
    'a certificate without its key',
    () => resolve('box', { tlsCert: file('client.crt') }),
    '--tls-cert: needs --tls-key',
  ],
  [
    'a key that others can read',
    () => resolve('box', { tlsCert: file('client.crt'), tlsKey: file('open.key') }),
    'chmod 600',
  ],
  ['TLS on a socket file', () => resolve('unix:/s', { tlsCa: file('ca.crt') }), 'without TLS'],
])('%s is refused', (_, use, text) => {
  expect(use).toThrow(text);
});
