import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Instance } from '../remote/instance.ts';
import { CommandContext } from './context.ts';
import { uninstall } from './uninstall.ts';

let home: string;
let settings: string;
beforeEach(() => {
  home = mkdtempSync(path.join(tmpdir(), 'fa-'));
  settings = path.join(home, 'config/flashcore');
  mkdirSync(settings, { recursive: true });
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

/** Runs a purge, in which the user types this text. */
async function purged(typed: string): Promise<string> {
  let shown = '';
  const stream = { isTTY: true, columns: 200, write: (text: string) => void (shown += text) };
  const stdin = Object.assign(Readable.from([typed]), { isTTY: true });
  const surroundings = { stdin, stdout: stream, stderr: stream, environment: { FLASHCORE_HOME: home } };
  await uninstall({ purge: true }, new CommandContext(surroundings, { color: 'never' }));
  return shown;
}

test('a user who types yes sees the list first; the data folder is removed too if it is empty afterwards', async () => {
  writeFileSync(path.join(settings, 'fa-tui.yaml'), 'ascii: true\n');
  expect(await purged('yes\n')).toMatch(/config\/flashcore .* 12 B[^]*Type yes: removed 1 item, 12 B/);
  expect(existsSync(home)).toBe(false);
});

test.for(['no\n', '\n', ''])('a user who types %j keeps everything', async (typed) => {
  await expect(purged(typed)).rejects.toThrow('not confirmed, nothing was removed');
  expect(existsSync(settings)).toBe(true);
});

test('if the settings folder is a link, only the link is removed', async () => {
  const dotfiles = path.join(home, 'dotfiles');
  mkdirSync(dotfiles);
  rmSync(settings, { recursive: true });
  symlinkSync(dotfiles, settings);
  await purged('yes\n');
  expect([existsSync(settings), existsSync(dotfiles)]).toEqual([false, true]);
});

test('uninstalling is refused while a host that was started from here may still cost money', async () => {
  writeFileSync(path.join(settings, 'fa-tui.yaml'), 'hooks:\n  gpu-box:\n    start: [start]\n    stop: [stop]\n');
  new Instance('gpu-box', { FLASHCORE_HOME: home }).write({ startedAt: 1 });
  await expect(purged('yes\n')).rejects.toThrow('gpu-box was started from here and may still cost');
});
