/**
 * The command table as Markdown for docs/keys.md. write-key-table.ts writes it there, and a test checks that it is up
 * to date.
 */
import type { Command } from './commands.ts';

export const KEY_TABLE_BEGIN = '<!-- keys: written by `npx node apps/tui/src/keymap/write-key-table.ts` -->';
export const KEY_TABLE_END = '<!-- keys end -->';

export function keyTable(commands: readonly Command[]): string {
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
