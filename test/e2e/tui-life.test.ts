/**
 * The life of a screen: every way out, storms of resizes, the runner's death in mid-stream, another client on the same
 * job, and coming back.
 */
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Terminal } from '@flashcore/tools/terminal';
import { afterAll, afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { Home, ROOT } from '../support/home.ts';
import { descendants } from '../support/process-tree.ts';
import { cutLines, FA_TUI, openScreen, type ScreenOptions } from '../support/screens.ts';
import { waitFor } from '@flashcore/shared/testing';
import { shellWord } from '@flashcore/shared/text';

const home = new Home();
afterAll(() => home[Symbol.asyncDispose]());

const opened: Terminal[] = [];
afterEach(() => opened.splice(0).forEach((terminal) => terminal.kill('SIGKILL')));

function open(options?: ScreenOptions): Terminal {
  const terminal = openScreen(home, options);
  opened.push(terminal);
  return terminal;
}

/** Starts a verification that runs until it is cancelled, and returns its name. */
function startLongJob(): string {
  const { exitCode, stdout, stderr } = home.faTui(['verify', 'fa_v1_baseline', '--seeds', '100', '--detach']);
  expect(exitCode, stderr).toBe(0);
  return stdout.trim();
}

const cancel = (job: string): void => expect(home.faTui(['cancel', job]).exitCode).toBe(0);

/** fa-tui under a shell that afterwards prints the terminal's settings. */
function openInShell(): Terminal {
  const preload = shellWord(pathToFileURL(join(ROOT, 'test/support/throw-on-signal.mjs')).href);
  const terminal = new Terminal(
    '/bin/sh',
    ['-c', `node --import ${preload} apps/tui/dist/main.js; echo "ended with $?"; stty -a`],
    { columns: 120, rows: 40, cwd: ROOT, env: home.env },
  );
  opened.push(terminal);
  return terminal;
}

const signal =
  (name: NodeJS.Signals) =>
  (terminal: Terminal): void => {
    const program = descendants(terminal.pid).find(({ command }) => command.includes('apps/tui/dist/main.js'));
    process.kill(program!.pid, name);
  };

test.each<[string, number, (terminal: Terminal) => void]>([
  ['q', 0, (terminal) => terminal.type('q')],
  ['Ctrl-C', 0, (terminal) => terminal.type('\u0003')],
  ['SIGTERM', 143, signal('SIGTERM')],
  ['SIGHUP', 129, signal('SIGHUP')],
  ['an exception', 3, signal('SIGUSR2')],
  [
    'q after the runner was killed',
    0,
    (terminal) => {
      process.kill(home.runnerInfo()!.pid, 'SIGKILL');
      terminal.type('q');
    },
  ],
])('%s gives the terminal back as it was', async (_, exitCode, leave) => {
  const terminal = openInShell();
  await terminal.waitFor(/● embedded[^]*\[1 Run\][^]*q detach/);
  leave(terminal);
  await terminal.exit;
  await expect.poll(() => terminal.text()).toMatch(new RegExp(`ended with ${exitCode}[^]* icanon [^]* echo `));
  const { screen, output } = terminal;
  expect({
    buffer: screen.buffer.active.type,
    paste: screen.modes.bracketedPasteMode,
    mouse: screen.modes.mouseTrackingMode,
  }).toEqual({ buffer: 'normal', paste: false, mouse: 'none' });
  expect(output.lastIndexOf('\u001b[?25h')).toBeGreaterThan(output.lastIndexOf('\u001b[?25l'));
});

test('the screen is drawn before the runner has answered, and q works by then', async () => {
  // Accepts connections and sends nothing.
  const silent = createServer(() => undefined).listen(0, '127.0.0.1');
  onTestFinished(() => void silent.close());
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;
  const terminal = open({ args: ['--runner', `127.0.0.1:${port}`] });
  await terminal.waitFor(/○ connecting[^]*8 Host[^]*Connecting to 127\.0\.0\.1/);
  terminal.type('q');
  expect(await terminal.exit).toBe(0);
  expect(terminal.text()).not.toMatch(/error/);
});

test('if no runner listens, fa-tui gives the terminal back and prints the reason', async () => {
  const terminal = open({ args: ['--runner', '127.0.0.1:1'] });
  expect(await terminal.exit).toBe(3);
  await expect.poll(() => terminal.text()).toMatch(/^error: No runner at 127\.0\.0\.1:1/m);
  expect(terminal.screen.buffer.active.type).toBe('normal');
});

test('in a dumb terminal fa-tui prints its help instead of opening a screen', async () => {
  const terminal = new Terminal(FA_TUI, [], { columns: 120, rows: 40, cwd: ROOT, env: home.env, kind: 'dumb' });
  opened.push(terminal);
  expect(await terminal.exit).toBe(2);
  await expect.poll(() => terminal.output).toMatch(/error: .*\(TERM=dumb\): give a command/);
  expect(terminal.output).not.toContain('\u001b');
});

test('in a dumb terminal a command writes only lines', async () => {
  const args = ['build', 'fa_v1_baseline'];
  const terminal = new Terminal(FA_TUI, args, { columns: 120, rows: 40, cwd: ROOT, env: home.env, kind: 'dumb' });
  opened.push(terminal);
  expect(await terminal.exit).toBe(0);
  await expect.poll(() => terminal.output).toMatch(/PASSED/);
  expect(terminal.output).not.toMatch(/\u001b|\r(?!\n)/);
});

test('if the locale is not UTF-8 the screen is ASCII', async () => {
  const terminal = open({ env: { LC_ALL: 'C' } });
  await terminal.waitFor(/\[1 Run\]/);
  terminal.type('8');
  await terminal.waitFor(/\[8 Host\][^]*flashcore CPU emulator/);
  expect(terminal.text()).toMatch(/^[\n\x20-\x7e]*$/);
});

test('a storm of 200 resizes in 2 s, down to 1x1, ends in the same screen as a calm start', async () => {
  const terminal = open();
  await terminal.waitFor(/\[1 Run\]/);
  // A fixed seed: the storm is always the same.
  let seed = 1;
  const random = (most: number): number => 1 + ((seed = (seed * 48_271) % 2_147_483_647) % most);
  const gaps = { startedAt: performance.now(), count: 200 };
  for (let turn = 0; turn < gaps.count; turn++) {
    terminal.resize(random(turn % 3 === 0 ? 12 : 220), random(turn % 3 === 0 ? 6 : 70));
    const due = gaps.startedAt + ((turn + 1) * 2_000) / gaps.count;
    // eslint-disable-next-line flashcore/no-fixed-wait -- a storm of this many resizes per second
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())));
  }
  terminal.resize(120, 40);
  terminal.type('7');
  const calm = open();
  await calm.waitFor(/\[1 Run\]/);
  calm.type('7');
  await calm.waitFor(/\[7 Kernels\][^]*flashcore_v6/);
  // The calm screen may not be complete yet.
  await vi.waitFor(() => expect(terminal.lines()).toEqual(calm.lines()), { timeout: 20_000 });
  expect(cutLines(terminal)).toEqual([]);
});

test('keys typed during the start leave no trace on the screen', async () => {
  const calm = open();
  await calm.waitFor(/● embedded[^]*\[1 Run\]/);
  for (let attempt = 0; attempt < 3; ++attempt) {
    const hasty = open();
    // "G" goes to the end of the log, where the screen already is.
    const typing = setInterval(() => hasty.type('G'), 1);
    try {
      await hasty.waitFor(/● embedded[^]*\[1 Run\]/);
    } finally {
      clearInterval(typing);
    }
    await vi.waitFor(() => expect(hasty.lines()).toEqual(calm.lines()), { timeout: 5_000 });
    hasty.kill('SIGKILL');
  }
});

test('two clients on one job: when one leaves, the job continues for the other, and on return the view is as before', async () => {
  const job = startLongJob();
  const [first, second] = [open(), open({ columns: 80, rows: 24 })];
  for (const terminal of [first, second]) await terminal.waitFor(/fa_v1_baseline[^]*running/);
  first.type('5');
  await first.waitFor(/\[5 Gates\]/);
  first.type('q');
  expect(await first.exit).toBe(0);
  const shown = second.text();
  await expect.poll(() => second.text(), { timeout: 10_000 }).not.toBe(shown);
  expect(second.text()).toMatch(/running/);
  const again = open();
  await again.waitFor(/\[5 Gates\]/);
  cancel(job);
  for (const terminal of [again, second]) await terminal.waitFor(/cancelled/);
});

test('jobs that ended after kill -9 of fa-tui are announced and marked by the next one', async () => {
  const killed = openInShell();
  await killed.waitFor(/● embedded[^]*q detach/);
  signal('SIGKILL')(killed);
  await killed.exit;
  expect(home.faTui(['build', 'fa_v1_baseline']).exitCode).toBe(0);
  const terminal = open();
  await terminal.waitFor(/Since \d\d:\d\d: 1 passed\. 6 marks them with •/);
  terminal.type('q');
  expect(await terminal.exit).toBe(0);
});

test('kill -9 of the runner in mid-stream is reported, the runner comes back, and no event is lost or repeated', async () => {
  startLongJob();
  // A client without saved state shows the running job; otherwise it would show the job shown last.
  const terminal = open({ env: { XDG_STATE_HOME: join(home.path, 'another') } });
  await terminal.waitFor(/\[1 Run\][^]*verify[^]*running|\[1 Run\][^]*running[^]*verify/);
  const { pid } = home.runnerInfo()!;
  process.kill(pid, 'SIGKILL');
  await terminal.waitFor(/reconnecting/);
  await terminal.waitFor(/● embedded[^]*interrupted/);
  expect(
    await waitFor('another runner', () => (home.runnerInfo()?.pid === pid ? undefined : home.runnerInfo()?.pid)),
  ).not.toBe(pid);
  // Goes to the first line, from which the log is checked.
  terminal.type('g');
  await terminal.waitFor(/from line 1 of/);
  const counts = (pattern: RegExp): number => terminal.lines().filter((line) => pattern.test(line)).length;
  await expect
    .poll(() => [counts(/job +queued/), counts(/job +running on/), counts(/job +interrupted:/)], { timeout: 5_000 })
    .toEqual([1, 1, 1]);
});

const [DOWN, RIGHT] = ['\u001b[B', '\u001b[C'];

/** Presses a key repeatedly until the screen matches; each press waits until the previous one shows. */
async function pressUntil(terminal: Terminal, key: string, pattern: RegExp): Promise<void> {
  for (let presses = 0; !pattern.test(terminal.text()); presses++) {
    if (presses === 40) throw new Error(`Pressed a key 40 times and did not see ${pattern}:\n${terminal.text()}`);
    const before = terminal.text();
    terminal.type(key);
    await expect.poll(() => terminal.text()).not.toBe(before);
  }
}

test('view 3 measures a champion live, named by --champion and then in the form, and does not judge it on the emulator', async () => {
  const LIVE = /The candidate against its champion {2}\d of \d shapes so far[^]*● (self-check|measuring)/;
  const ENDED =
    /fa_v2_wmma USE_WMMA=1 against its champion fa_v1_baseline[^]*○ not judged: (?!not judged)[^]*▸ 1x2x64x64 +(cold|hot) +[\d.]+ [mu]s[^]*candidate above the axis, champion below/;
  const terminal = open({
    args: ['start', '--champion', 'fa_v1_baseline', '--seeds', '1', '--shape', '1x2x64x64', '--max-seconds', '0.3'],
  });
  await terminal.waitFor(/\[1 Run\][^]*job +queued/);
  terminal.type('3');
  for (const seen of [LIVE, ENDED, /✓ passed/]) await terminal.waitFor(seen, 60_000);
  terminal.type('R');
  await terminal.waitFor(/─ Run fa_v2_wmma/);
  await pressUntil(terminal, DOWN, /▸ shapes/);
  terminal.type('1x2x64x64');
  await pressUntil(terminal, DOWN, /▸ seeds/);
  terminal.type('1');
  await pressUntil(terminal, DOWN, /▸ seconds/);
  // Long enough that it is still measuring when it is cancelled.
  await pressUntil(terminal, RIGHT, /▸ seconds +← 10 →/);
  await pressUntil(terminal, DOWN, /▸ champion/);
  await pressUntil(terminal, RIGHT, /▸ champion +← fa_v1_baseline →/);
  terminal.type('\r');
  await terminal.waitFor(/\[1 Run\][^]*running/);
  terminal.type('3');
  await terminal.waitFor(LIVE, 60_000);
  terminal.type('x');
  await terminal.waitFor(/Cancel fa_v2_wmma[^\n]*\?/);
  terminal.type('y');
  await terminal.waitFor(/○ cancelled/);
}, 150_000);

test('in inline mode there is no separate screen: the log stays in the scrollback, with keys and views below it', async () => {
  const terminal = open({
    args: ['--inline', 'start', '--seeds', '1', '--shape', '1x4x128x64', '--max-seconds', '0.2'],
    columns: 100,
    rows: 30,
  });
  await terminal.waitFor(/passed: /, 120_000);
  terminal.type('5');
  await terminal.waitFor(/─ 5 Gates/);
  terminal.type('1');
  await terminal.waitFor(/^(?![^]*─ 5 Gates)[^]*q detach/);
  terminal.type('q');
  expect(await terminal.exit).toBe(0);
  await expect.poll(() => terminal.history().filter((line) => /job +passed: /.test(line))).toHaveLength(1);
  const lines = terminal.history();
  expect(
    [/── fa_v2_wmma .*jobs\//, /job +queued/, /job +verify/, /job +benchmark/].map(
      (pattern) => lines.filter((line) => pattern.test(line)).length,
    ),
  ).toEqual([1, 1, expect.toSatisfy((count: number) => count >= 1), expect.toSatisfy((count: number) => count >= 1)]);
  expect(terminal.output).not.toMatch(/\u001b\[\?1049h|\u001b\[[23]J/);
}, 150_000);

test('for a screen reader fa-tui runs in inline mode, with the same views and keys', async () => {
  const terminal = open({ env: { INK_SCREEN_READER: 'true' }, columns: 100, rows: 30 });
  await terminal.waitFor(/q detach/);
  terminal.type('8');
  await terminal.waitFor(/\[8 Host\][^]*flashcore CPU emulator/);
  terminal.type('q');
  expect(await terminal.exit).toBe(0);
  expect(terminal.output).not.toMatch(/\u001b\[\?1049h|[\u2500-\u259f\u2800-\u28ff]/);
});
