/**
 * A home, a data folder and a kernel folder with characters in their names that a shell, a URL or a format string would
 * interpret.
 */
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { missing, waitFor } from '@flashcore/shared/testing';
import { Home, ROOT } from '../support/home.ts';
import { FA_TUI } from '../support/screens.ts';

const ODD = `it's 100%20 "my" öz `;
const SMALL = ['--shape', '1x1x64x64', '--seeds', '1'];
const home = new Home({}, ODD);
Object.assign(home.env, { HOME: home.path });
afterAll(() => home[Symbol.asyncDispose]());

const kernels = join(home.path, `${ODD}kernels`);
const kernel = join(kernels, 'my_kernel');
const into = (name: string): string => join(kernels, `${ODD}${name}`);

test('the commands that fa-tui new prints can be pasted into a shell', { timeout: 120_000 }, () => {
  mkdirSync(kernels);
  const { stdout, stderr } = home.faTui(['new', kernel]);
  writeFileSync(join(kernel, 'NOTES.md'), '# my_kernel\n\nAs it was copied: where measurements start.\n');
  const [, command = ''] = /^ {2}(fa-tui run .*?) {2,}build, verify/m.exec(stdout) ?? [];
  expect(command, stderr).toContain('my_kernel');
  const ran = execFileSync('sh', ['-c', `${command} ${SMALL.join(' ')}`], {
    cwd: ROOT,
    env: home.env,
    encoding: 'utf8',
  });
  expect(ran).toContain('PASSED');
});

test('a kernel folder with any name is run, and its findings name its files', { timeout: 120_000 }, () => {
  const odd = join(kernels, ODD.trim());
  renameSync(kernel, odd);
  expect(home.faTui(['verify', odd, ...SMALL])).toMatchObject({ exitCode: 0 });
  const source = join(odd, 'my_kernel.cu');
  const text = readFileSync(source, 'utf8');
  writeFileSync(source, `${text}\n#error as planned\n`);
  expect(home.faTui(['verify', odd, ...SMALL])).toMatchObject({
    exitCode: 1,
    stdout: expect.stringContaining('as planned') as string,
  });
  writeFileSync(source, text);
  renameSync(odd, kernel);
});

test('records and reports go into folders with any name', { timeout: 120_000 }, () => {
  const files = ['events.jsonl', 'junit.xml', 'report.html'].map(into);
  const [record, junit, report] = files as [string, string, string];
  expect(home.faTui(['verify', kernel, ...SMALL, '--record', record, '--junit', junit])).toMatchObject({ exitCode: 0 });
  expect(home.faTui(['replay', record, '--speed', '100'])).toMatchObject({ exitCode: 0 });
  const job = /jobs\/[0-9a-f-]{36}/.exec(readFileSync(record, 'utf8'))![0];
  expect(home.faTui(['report', job, '--format', 'html', '--output', report])).toMatchObject({ exitCode: 0 });
  expect(files.filter((file) => !existsSync(file))).toEqual([]);
});

// The export is a library of machine code, which needs nvcc.
test.skipIf(missing('nvcc'))('an export goes into a folder with any name', { timeout: 120_000 }, () => {
  expect(home.faTui(['export', kernel, '--hf', into('hf')])).toMatchObject({ exitCode: 0 });
  expect(existsSync(into('hf'))).toBe(true);
});

test('a save in a folder with any name is run', { timeout: 120_000 }, async () => {
  const watch = spawn(FA_TUI, ['watch-source', kernel, ...SMALL], {
    env: home.env,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let said = '';
  watch.stdout.setEncoding('utf8').on('data', (text: string) => void (said += text));
  const passed = (times: number): Promise<true> =>
    waitFor(`${times} runs`, () => said.split('PASSED').length > times || undefined, 60_000);
  try {
    await passed(1);
    const source = join(kernel, 'my_kernel.cu');
    writeFileSync(source, `${readFileSync(source, 'utf8')}\n// saved\n`);
    await passed(2);
  } finally {
    watch.kill('SIGKILL');
  }
});
