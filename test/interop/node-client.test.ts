/** examples/node-client, which uses only the .proto files, against a real runner. */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Home, ROOT } from '../support/home.ts';

const FOLDER = join(ROOT, 'examples/node-client');

const home = new Home();
let address: string;
beforeAll(async () => {
  ({ address } = await home.startDaemon());
});
afterAll(() => home[Symbol.asyncDispose]());

async function client(...args: string[]): Promise<{ exitCode: number; lines: string[]; errors: string }> {
  const child = spawn(process.execPath, [join(FOLDER, 'client.js'), ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  const { promise, resolve } = Promise.withResolvers<number>();
  child.on('close', (code) => resolve(code ?? -1));
  const texts = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      texts[name] += text;
    });
  return { exitCode: await promise, lines: texts.stdout.trimEnd().split('\n'), errors: texts.stderr };
}

const numbers = (lines: readonly string[]): number[] =>
  lines.map((line) => Number(line.slice(0, 4))).filter((number) => number > 0);

test('the client imports no code of flashcore', () => {
  const imports = [...readFileSync(join(FOLDER, 'client.js'), 'utf8').matchAll(/^import .* from '([^']+)';$/gm)];
  expect(imports.map(([, name]) => name).filter((name) => !name!.startsWith('node:'))).toEqual([
    '@grpc/grpc-js',
    '@grpc/proto-loader',
    'protobufjs',
  ]);
});

test.each([
  ['build', 'fa_v1_baseline', 3],
  ['experiment', 'fa_v1_baseline', 5],
])(
  '%s of %s: the stream is dropped after event %i and resumed without a gap',
  async (what, kernel, cut) => {
    const { exitCode, lines, errors } = await client(
      what,
      '--address',
      address,
      '--kernel',
      kernel,
      '--cut-after',
      String(cut),
    );
    expect(errors).toBe('');
    expect(lines.filter((line) => line.includes('was cut'))).toHaveLength(1);
    expect(numbers(lines)).toEqual(numbers(lines).map((_, index) => index + 1));
    expect(lines.at(-1)).toMatch(/finished OUTCOME_/);
    expect(exitCode).toBe(lines.at(-1)!.includes('OUTCOME_PASSED') ? 0 : 1);
  },
  120_000,
);

test('the client prints an error with its reason', async () => {
  const { exitCode, errors } = await client('build', '--address', address, '--kernel', 'no_such_kernel');
  expect(exitCode).toBe(3);
  expect(errors).toContain('error: KERNEL_NOT_FOUND: ');
});
