/**
 * The unit file in the bundle for GPU hosts: the runner accepts its command line, and systemd-analyze, if installed,
 * finds nothing wrong.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Home, ROOT } from '../support/home.ts';
import { missing, temporaryFolder } from '@flashcore/shared/testing';

const UNIT = join(ROOT, 'tools/systemd/flashcore-runner.service');
const text = readFileSync(UNIT, 'utf8');

/**
 * Reads the unit's settings by section. Throws if a line is neither a section nor a setting; continued lines are not
 * supported.
 */
function parseUnit(): Map<string, string[]> {
  const settings = new Map<string, string[]>();
  let section = '';
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const [, name] = /^\[(\w+)\]$/.exec(line) ?? [];
    if (name !== undefined) {
      section = name;
      continue;
    }
    const [, key, value] = /^([A-Z][A-Za-z]+)=(.*)$/.exec(line) ?? [];
    if (key === undefined || section === '') throw new Error(`no setting: ${line}`);
    settings.set(`${section}.${key}`, [...(settings.get(`${section}.${key}`) ?? []), value!]);
  }
  return settings;
}

test('the runner accepts the unit’s command line, and then asks for certificates', async () => {
  const settings = parseUnit();
  const [program, ...args] = settings.get('Service.ExecStart')![0]!.split(' ');
  expect(program).toBe('/opt/flashcore/flashcore-runner');
  await using home = new Home();
  const { exitCode, stderr } = home.runnerCommand(args);
  expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining('tls init') as string });
  // systemd's stop timeout must exceed the runner's grace period, so that systemd does not kill a runner that is still
  // ending its jobs.
  const grace = Number(args[args.indexOf('--grace-seconds') + 1]);
  expect(Number(settings.get('Service.TimeoutStopSec')![0])).toBeGreaterThan(grace + 10);
  for (const key of ['NoNewPrivileges', 'ProtectHome', 'PrivateTmp'])
    expect(settings.get(`Service.${key}`)).toEqual(['yes']);
});

test.skipIf(missing('systemd'))('systemd-analyze verify finds nothing wrong', () => {
  using folder = temporaryFolder();
  // Replaces the program and the user, which do not exist on this machine. Everything else in the unit stays the
  // same.
  const unit = join(folder.path, 'flashcore-runner.service');
  writeFileSync(
    unit,
    text
      .replaceAll('/opt/flashcore/flashcore-runner', '/bin/true')
      .replaceAll(/^(User|Group|SupplementaryGroups)=.*$/gm, ''),
  );
  const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', unit], { encoding: 'utf8' });
  const lines = `${stdout}${stderr}`.split('\n').filter((line) => line.includes('flashcore-runner.service'));
  expect({ status, lines }).toEqual({ status: 0, lines: [] });
});
