/** Writes the table of keys into the README, between its markers. */
import { readFileSync, writeFileSync } from 'node:fs';
import { COMMANDS } from './commands.ts';
import { KEY_TABLE_BEGIN, keyTable, withKeyTable } from './key-table.ts';

const README = new URL('../../../../README.md', import.meta.url);
const text = withKeyTable(readFileSync(README, 'utf8'), keyTable(COMMANDS));
if (text === undefined) throw new Error(`Wanted the line ${KEY_TABLE_BEGIN} in README.md`);
writeFileSync(README, text);
