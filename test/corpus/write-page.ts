/** Writes docs/cheating.md from the stored results of the last corpus runs. */
import { writeFileSync } from 'node:fs';
import { PAGE_PATH, cheatingPage } from './page.ts';

writeFileSync(PAGE_PATH, await cheatingPage());
