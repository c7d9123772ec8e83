/** Installed without the registry, the npm package runs a user's own kernel. */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { Home, ROOT } from '../support/home.ts';

const folder = mkdtempSync(join(tmpdir(), 'fc-package-'));
const home = new Home();
afterAll(async () => {
  await home[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

test("the package installs offline and runs a user's kernel to a verdict", { timeout: 300_000 }, () => {
  const options = { cwd: folder, encoding: 'utf8', env: { ...home.env, HOME: folder } } as const;
  mkdirSync(join(folder, 'package'));
  const program = join(ROOT, 'tools/package.ts');
  execFileSync(process.execPath, ['--experimental-transform-types', program, '--out', folder], { stdio: 'ignore' });
  expect(readdirSync(folder)).toContain('package');
  const [file] = readdirSync(folder).filter((name) => name.endsWith('.tgz'));
  expect(statSync(join(folder, file!)).size).toBeLessThan(30e6);
  execFileSync('npm', ['i', '-g', '--offline', '--prefix', join(folder, 'global'), `./${file}`], {
    ...options,
    stdio: 'ignore',
  });
  const formula = readFileSync(join(folder, 'flashcore.rb'), 'utf8');
  const digest = createHash('sha256')
    .update(readFileSync(join(folder, file!)))
    .digest('hex');
  expect(formula).toContain(`sha256 "${digest}"`);
  expect(formula).not.toMatch(/"@\w+@"|\/@/);
  const run = (...args: string[]) => spawnSync(join(folder, 'global/bin/flashcore'), args, options);
  expect(run('new', 'my_kernel')).toMatchObject({ status: 0 });
  const { status, stdout, stderr } = run('verify', './my_kernel', '--shape', '1x1x64x64', '--seeds', '1');
  expect(status, stderr).toBe(0);
  expect(stdout).toContain('1 of 1 case passed');
});
