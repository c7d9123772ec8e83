/** The ladder's final report in lab/results is the output of its recorded command on the stored results. */
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { measuredFolder } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { formatMarkdown } from '@flashcore/tools/format-markdown';
import { ROOT } from '../support/home.ts';
import { FA_TUI } from '../support/screens.ts';

const FOLDER = join(ROOT, 'lab/results/h200-final-2026-11-22');

test('the ladder’s final report is what its recorded command prints', async () => {
  const commands = readFileSync(join(measuredFolder(basename(FOLDER)), 'commands.txt'), 'utf8');
  const [command = ''] = commands.split('\n');
  const words = command.replace(/^npx fa-tui /, '').split(' ');
  // The command was recorded when the results were in docs/results. The folders of this checkout are put in after the
  // split into words, because they may have spaces.
  const placed = words
    .slice(0, words.indexOf('-o'))
    .map((word) => word.replace(/docs\/results\/([^/ ]+)/g, (_, campaign: string) => measuredFolder(campaign)));
  const args = placed.flatMap((word) => (word.includes('*') ? filesOf(word) : [word]));
  const printed = execFileSync(FA_TUI, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 8 << 20 });
  const path = join(FOLDER, 'final.md');
  expect(await formatMarkdown(printed, path)).toBe(readFileSync(path, 'utf8'));
});

/** Expands a star like the shell: to the files whose names have this prefix and this suffix. */
function filesOf(pattern: string): string[] {
  const [before = '', after = ''] = pattern.split('*');
  const folder = dirname(before);
  return readdirSync(folder)
    .map((name) => join(folder, name))
    .filter((path) => path.startsWith(before) && path.endsWith(after))
    .sort();
}
