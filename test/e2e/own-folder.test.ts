/** A user's own kernel folder works like a kernel of the runner: listed, edited, run again, chosen in the form. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { Home } from '../support/home.ts';
import { openScreen } from '../support/screens.ts';

const home = new Home();
const folder = join(home.path, 'my kernels', 'mine');
const other = join(home.path, 'other');

beforeAll(() => {
  mkdirSync(join(home.path, 'my kernels'));
  expect(home.faTui(['new', folder])).toMatchObject({ exitCode: 0 });
  expect(home.faTui(['new', other])).toMatchObject({ exitCode: 0 });
  // In its folder, a command needs no argument.
  const verified = home.faTui(['verify', '--shape', '1x1x64x64', '--seeds', '1'], { cwd: folder });
  expect([verified.exitCode, verified.stdout]).toEqual([0, expect.stringMatching(/^mine/m)]);
}, 120_000);
afterAll(() => home[Symbol.asyncDispose]());

test("a folder that was run is listed first, e edits it, r runs it, and the form takes another folder's path", async () => {
  const source = join(folder, 'mine.cu');
  const editor = join(home.path, 'append');
  writeFileSync(editor, '#!/bin/sh\necho "// $1 was edited" >> "$1"\n', { mode: 0o755 });
  const terminal = openScreen(home, { env: { EDITOR: `'${editor}'`, VISUAL: '' } });
  onTestFinished(() => terminal.kill('SIGKILL'));
  await terminal.waitFor(/embedded runner, connected/);
  terminal.type('7');
  await terminal.waitFor(/▸ mine +✓ passed[^]*✓ passed {2}verify; no experiment yet/);
  terminal.type('1');
  await terminal.waitFor(/\[1 Run\]/);
  expect(terminal.text()).not.toMatch(/Δ/);
  terminal.type('e');
  await terminal.waitFor(/Edited /);
  await terminal.waitFor(/✓ passed.* Δ source changed since/);
  terminal.type('6');
  await terminal.waitFor(/✓ \* Δ mine[^]*Δ source changed since/);
  terminal.type('1');
  expect(readFileSync(source, 'utf8')).toContain(`// ${source} was edited`);
  terminal.type('R');
  await terminal.waitFor(/─ Run mine/);
  terminal.type('\u001b[A');
  terminal.type(other);
  await terminal.waitFor(/other█ +typed/);
  terminal.type('\t');
  await terminal.waitFor(/─ Run other/);
  terminal.type('\u001b');
  await terminal.waitFor(/ r rerun /);
  terminal.type('7g');
  await terminal.waitFor(/▸ mine/);
  terminal.type('r');
  await terminal.waitFor(/● running {2}mine|mine.*running/);
  terminal.type('x');
  await terminal.waitFor(/Cancel mine/);
  terminal.type('y');
  await terminal.waitFor(/cancelled/i);
});
