import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const README = join(import.meta.dirname, '../../README.md');

/** The two commands of the README: the first opens the terminal program, the second ends by itself. */
export function readmeCommands(text = readFileSync(README, 'utf8')): { start: string; test: string } {
  const [, section = ''] = text.split(/^## Two commands$/m);
  const commands = [...section.matchAll(/^(npm ci && npm \w+)\s+#/gm)].map(([, command]) => command!);
  const [start, test] = commands;
  if (start === undefined || test === undefined || commands.length !== 2)
    throw new Error(`README.md, "Two commands": must have two lines "npm ci && npm …  # …", got ${commands.length}`);
  return { start, test };
}
