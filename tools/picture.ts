/** `npm run picture`: draws the README's picture from fa-tui's screen while it runs an experiment on the emulator. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Terminal } from './terminal.ts';
import { terminalSvg } from './terminal-svg.ts';

const ROOT = join(import.meta.dirname, '..');
const home = mkdtempSync(join(tmpdir(), 'fc-'));
const terminal = new Terminal(join(ROOT, 'node_modules/.bin/fa-tui'), ['start'], {
  columns: 120,
  rows: 40,
  cwd: ROOT,
  env: { ...process.env, FLASHCORE_HOME: home },
});
try {
  await terminal.waitFor(/passed: /, 300_000);
  terminal.type(process.argv[2] ?? '1');
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  writeFileSync(join(ROOT, 'docs/fa-tui.svg'), terminalSvg(terminal));
  terminal.type('q');
  await terminal.exit;
} finally {
  terminal.kill('SIGKILL');
  rmSync(home, { recursive: true, force: true });
}
