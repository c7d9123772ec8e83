/** The archive for a GPU host runs on a system that has no repository, no npm and no node_modules. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { missing } from '@flashcore/shared/testing';
import { Home, ROOT } from '../support/home.ts';

const TITLE = 'the bundle runs from a folder of its own, with what a host has: compilers';

// The archive here is packed without Node, whose 35 MB take half a minute. `npx nx bundle runner` itself fails above 60
// MB.
test.skipIf(missing('xz-utils'))(TITLE, { timeout: 300_000 }, async () => {
  await using home = new Home();
  const folder = mkdtempSync(join(tmpdir(), 'fc-bundle-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'out/flashcore'), { recursive: true });
  execFileSync(process.execPath, [join(ROOT, 'tools/bundle-runner.ts'), '--out', join(folder, 'out'), '--no-node'], {
    stdio: 'ignore',
    // xz's fastest level: the archive is twice as large and takes a tenth of the time.
    env: { ...process.env, XZ_OPT: '-0' },
  });
  expect(readdirSync(join(folder, 'out')).toSorted()).toEqual(['flashcore', expect.stringMatching(/\.tar\.xz$/)]);
  const [archive] = readdirSync(join(folder, 'out')).filter((name) => name.endsWith('.tar.xz'));
  expect(statSync(join(folder, 'out', archive!)).size).toBeLessThan(8e6);
  const there = join(folder, 'host');
  mkdirSync(there);
  execFileSync('tar', ['-C', there, '-xf', join(folder, 'out', archive!)]);
  rmSync(join(folder, 'out'), { recursive: true });
  mkdirSync(join(there, 'flashcore/bin'));
  symlinkSync(process.execPath, join(there, 'flashcore/bin/node'));

  const path = (process.env['PATH'] ?? '')
    .split(':')
    .filter((part) => !part.includes('node_modules'))
    .join(':');
  const run = (program: string, ...args: string[]) =>
    spawnSync(join(there, 'flashcore', program), args, {
      cwd: there,
      encoding: 'utf8',
      env: { ...home.env, PATH: path },
    });
  expect(run('flashcore-runner', '--version')).toMatchObject({ status: 0, stdout: '0.1.0\n' });
  const { status, stdout, stderr } = run('fa-tui', 'verify', 'fa_v1_baseline', '--shape', '1x1x64x64', '--seeds', '1');
  expect(status, stderr).toBe(0);
  expect(stdout).toContain('1 of 1 case passed');
  expect(stderr).toContain('embedded');
});
