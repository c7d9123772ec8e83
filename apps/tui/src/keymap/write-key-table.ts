/** Writes the table of keys into docs/keys.md, between its markers. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import { COMMANDS } from './commands.ts';
import { KEY_TABLE_BEGIN, keyTable, withKeyTable } from './key-table.ts';

const PAGE = fileURLToPath(new URL('../../../../docs/keys.md', import.meta.url));
const text = withKeyTable(readFileSync(PAGE, 'utf8'), keyTable(COMMANDS));
if (text === undefined) throw new Error(`Wanted the line ${KEY_TABLE_BEGIN} in docs/keys.md`);
writeFileSync(PAGE, await format(text, { ...(await resolveConfig(PAGE)), filepath: PAGE }));
