/**
 * The command table as Markdown for docs/keys.md. Run as a program it writes the table there, between its markers; a
 * test checks that it is up to date.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import { COMMANDS, type Command } from './commands.ts';

export const KEY_TABLE_BEGIN = '<!-- keys: written by `npx node apps/tui/src/keymap/key-table.ts` -->';
export const KEY_TABLE_END = '<!-- keys end -->';

function keyTable(commands: readonly Command[]): string {
  const rows = commands.map(
    ({ id, keys, help }) =>
      `| ${keys.map((key) => `\`${key}\``).join(' ')} | ${help.replaceAll('|', '\\|')} | \`${id}\` |`,
  );
  return ['| Keys | What they do | Command |', '| --- | --- | --- |', ...rows].join('\n');
}

/** `text` with the table between the markers; undefined if it has no markers. */
export function withKeyTable(text: string, table: string): string | undefined {
  const [begin, end] = [text.indexOf(KEY_TABLE_BEGIN), text.indexOf(KEY_TABLE_END)];
  return begin < 0 || end < begin
    ? undefined
    : `${text.slice(0, begin + KEY_TABLE_BEGIN.length)}\n${table}\n${text.slice(end)}`;
}

const PAGE = fileURLToPath(new URL('../../../../docs/keys.md', import.meta.url));

/** docs/keys.md as it is, and as it should be. */
export async function keysPage(): Promise<{ readonly found: string; readonly wanted: string }> {
  const found = readFileSync(PAGE, 'utf8');
  const wanted = withKeyTable(found, keyTable(COMMANDS));
  if (wanted === undefined) throw new Error(`Wanted the line ${KEY_TABLE_BEGIN} in docs/keys.md`);
  return { found, wanted: await format(wanted, { ...(await resolveConfig(PAGE)), filepath: PAGE }) };
}

if (import.meta.main) writeFileSync(PAGE, (await keysPage()).wanted);
