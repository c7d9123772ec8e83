/** fa-tui's terminal while another program uses it: an editor reads every key, and the shell gets its modes back. */
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Terminal } from '@flashcore/tools/terminal';
import { ALL_TESTS, missing } from '@flashcore/shared/testing';
import { shellWord } from '@flashcore/shared/text';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { Home, ROOT } from '../support/home.ts';
import { descendants } from '../support/process-tree.ts';
import { cutLines, FA_TUI, openScreen } from '../support/screens.ts';

const home = new Home();
afterAll(() => home[Symbol.asyncDispose]());

/** Keys that scroll, open the palette, switch views and quit, if fa-tui reads them. */
const TYPED = 'G:q?jk7e1Q bgx';
const ESCAPE = '\u001b';
const CTRL_S = '\u0013';
const CTRL_X = '\u0018';
const CTRL_Q = '\u0011';

interface Editor {
  readonly program: string;
  readonly options: string;
  /** A text that the program's screen shows once the program reads keys. */
  readonly ready: RegExp;
  readonly keys: readonly string[];
  readonly isMissing: boolean;
}

const EDITORS: readonly Editor[] = [
  {
    program: 'vim',
    options: '-Nu NONE -n --cmd "set shortmess+=I"',
    ready: /^~\s*$/m,
    keys: ['i', ...TYPED, ESCAPE, ':', 'w', 'q', '\r'],
    isMissing: missing('vim'),
  },
  {
    program: 'nano',
    options: '-I',
    ready: /GNU nano[^]*\^X/,
    keys: [...TYPED, CTRL_S, CTRL_X],
    isMissing: missing('nano'),
  },
  {
    program: 'micro',
    options: '-autosave 0',
    ready: /typed\.micro \(1,1\)/,
    keys: [...TYPED, CTRL_S, CTRL_Q],
    isMissing: missing('micro'),
  },
];

const openings = ALL_TESTS ? 67 : 8;

describe.concurrent.each(EDITORS)('$program', ({ program, options, ready, keys, isMissing }) => {
  test.skipIf(isMissing)(
    `gets every key that is typed while it is open, ${openings} times`,
    { timeout: 600_000 },
    async ({ expect }) => {
      const typed = join(home.path, `typed.${program}`);
      // The kernel's own source must not change, so the editor gets another file.
      const environment = { ...home.env, EDITOR: `${program} ${options} '${typed}'; #`, VISUAL: '' };
      const terminal = new Terminal(FA_TUI, ['--mouse'], { columns: 100, rows: 30, cwd: ROOT, env: environment });
      try {
        await terminal.waitFor(/embedded runner, connected/);
        terminal.type('7');
        await terminal.waitFor(/\[7 Kernels\][^]*flashcore_v6/);
        for (let opening = 1; opening <= openings; ++opening) {
          rmSync(typed, { force: true });
          terminal.type('e');
          await terminal.waitFor(ready);
          for (const key of keys) {
            terminal.type(key);
            // eslint-disable-next-line flashcore/no-fixed-wait -- keys come one at a time, as a person types them
            await new Promise((resolve) => setTimeout(resolve, 15));
          }
          await terminal.waitFor(/\[7 Kernels\][^]*was not changed/);
          expect(existsSync(typed) && readFileSync(typed, 'utf8'), `opening ${opening}`).toBe(`${TYPED}\n`);
        }
        terminal.type('q');
        expect(await terminal.exit).toBe(0);
      } finally {
        terminal.kill('SIGKILL');
      }
    },
  );
});

/** Opens view 7, with a vim that starts slowly as the editor. */
async function openKernels(): Promise<Terminal> {
  const editor = `sleep 0.3; vim -Nu NONE -n '${join(home.path, 'typed ahead')}'; #`;
  const terminal = openScreen(home, { env: { EDITOR: editor, VISUAL: '' } });
  onTestFinished(() => terminal.kill('SIGKILL'));
  await terminal.waitFor(/embedded runner, connected/);
  terminal.type('7');
  await terminal.waitFor(/\[7 Kernels\][^]*flashcore_v6/);
  return terminal;
}

async function leaveVim(terminal: Terminal): Promise<void> {
  terminal.type(`${ESCAPE}:q!\r`);
  await terminal.waitFor(/\[7 Kernels\][^]*▸ fa_v1_baseline[^]*was not changed/);
}

test.skipIf(missing('vim'))('fa-tui ignores keys that it reads together with e', async () => {
  const terminal = await openKernels();
  terminal.type('e:7Gq');
  await terminal.waitFor(/^~\s*$/m);
  await leaveVim(terminal);
});

test.skipIf(missing('vim'))("keys typed before the editor has started are the editor's", async () => {
  const terminal = await openKernels();
  terminal.type('e');
  await expect.poll(() => terminal.screen.buffer.active.type, { timeout: 10_000 }).toBe('normal');
  terminal.type('iG:q');
  await terminal.waitFor(/^G:q\s*\n~/m);
  await leaveVim(terminal);
});

/** A shell with job control whose foreground job is fa-tui. */
async function openInShell(): Promise<Terminal> {
  const terminal = new Terminal('/bin/bash', ['--norc', '--noprofile', '-i'], {
    columns: 100,
    rows: 30,
    cwd: ROOT,
    env: { ...home.env, PS1: 'shell> ' },
  });
  onTestFinished(() => terminal.kill('SIGKILL'));
  await terminal.waitFor(/shell> $/m);
  terminal.type(`${shellWord(FA_TUI)}\r`);
  await terminal.waitFor(/embedded runner, connected/);
  return terminal;
}

const faTuiIn = (terminal: Terminal): number =>
  descendants(terminal.pid).find(({ command }) => command.includes('fa-tui'))!.pid;

/**
 * Checks that the shell has the terminal with its modes, and that after `fg` and a key fa-tui has it again with its
 * own.
 */
async function comesBack(terminal: Terminal): Promise<void> {
  await terminal.waitFor(/Stopped[^]*shell> $/m);
  terminal.type('stty -a\r');
  await terminal.waitFor(/ icanon [^]* echo /);
  terminal.type('fg\r');
  await terminal.waitFor(/embedded runner, connected/);
  terminal.type('8');
  await terminal.waitFor(/\[8 Host\]/);
  terminal.type('1');
  await terminal.waitFor(/\[1 Run\]/);
}

test.each<[string, (terminal: Terminal) => void]>([
  ['Ctrl-Z', (terminal) => terminal.type('\u001a')],
  ['SIGTSTP', (terminal) => process.kill(faTuiIn(terminal), 'SIGTSTP')],
  ['SIGSTOP', (terminal) => process.kill(faTuiIn(terminal), 'SIGSTOP')],
])('%s gives the terminal to the shell until fg, twice', { timeout: 60_000 }, async (_, stop) => {
  const terminal = await openInShell();
  stop(terminal);
  await comesBack(terminal);
  stop(terminal);
  await comesBack(terminal);
  terminal.type('q');
  await terminal.waitFor(/shell> $/m);
});

test('Ctrl-L redraws what another program has overwritten', async () => {
  const terminal = openScreen(home);
  onTestFinished(() => terminal.kill('SIGKILL'));
  await terminal.waitFor(/embedded runner, connected/);
  terminal.screen.write('\u001b[2J\u001b[Hmessage from root');
  await terminal.waitFor(/message from root/);
  terminal.type('\u000c');
  await expect.poll(() => terminal.text(), { timeout: 10_000 }).not.toContain('message from root');
  // A frame may reach the screen in pieces.
  await expect.poll(() => cutLines(terminal), { timeout: 10_000 }).toEqual([]);
  expect(terminal.text()).toMatch(/embedded runner, connected[^]*\[\d \w+\]/);
});
