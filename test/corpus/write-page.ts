/** Makes docs/cheating.md of what the last runs of the corpus stored. */
import { writeFileSync } from 'node:fs';
import { PAGE_PATH, cheatingPage } from './page.ts';

writeFileSync(PAGE_PATH, await cheatingPage());
