/** The suite that a GPU's driver must pass, on the emulator. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../support/home.ts';
import checks from './checks.ts';

test('libcuda_emu.so passes the conformance suite', () => {
  const output = execFileSync(process.execPath, [join(ROOT, 'test/dist/conformance.js'), 'emulator'], { encoding: 'utf8' });
  expect(output).toMatch(new RegExp(`^${checks.length} passed, 0 failed`, 'm'));
}, 300_000);
