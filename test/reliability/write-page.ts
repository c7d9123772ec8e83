/** Writes docs/reliability.md from the figures that the last soak stored. */
import { writeFileSync } from 'node:fs';
import { PAGE_PATH, readRun, reliabilityPage } from './page.ts';

const run = readRun();
if (!run) throw new Error('Run `npx nx soak test` first: it has stored no figures yet');
writeFileSync(PAGE_PATH, await reliabilityPage(run));
