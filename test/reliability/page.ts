/**
 * `node test/reliability/page.ts` writes docs/reliability.md: every promise, with the tests that show it and the
 * results of the last soak.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatMarkdown } from '@flashcore/tools/format-markdown';
import type { Figure } from './campaign.ts';
import { PROMISES, type PromiseId } from './promises.ts';

export const ROOT = join(import.meta.dirname, '../..');
export const FIGURES_PATH = join(ROOT, 'docs/reliability.json');
export const PAGE_PATH = join(ROOT, 'docs/reliability.md');

export interface SoakRun {
  figures: readonly (Figure & {
    date: string;
    /** The machine's processors, its system and the version of Node. */
    machine: string;
  })[];
}

/** The results stored by the last soak; undefined if there are none. */
export const readRun = (): SoakRun | undefined =>
  existsSync(FIGURES_PATH) ? (JSON.parse(readFileSync(FIGURES_PATH, 'utf8')) as SoakRun) : undefined;

export function reliabilityPage({ figures }: SoakRun): Promise<string> {
  const text = [
    '# The promises of flashcore, and the results of their tests',
    '',
    'Written by `npx nx soak test`, which runs every campaign in its long form and stores its figures in [reliability.json](reliability.json); `npm run test:all` runs the same tests with fewer rounds.',
    `Each figure has its day and the seed that repeats it (\`FLASHCORE_SEED=… npx nx soak test\`); a figure is listed only if all of its file's tests passed. ${machinesOf(figures)} Times of 2026-11-22, 2026-11-28 and 2026-11-30 are from machines that were busy with other builds and tests.`,
    'On a GPU the faulty and the cheating kernels run through the program itself ([results on an H200](../lab/results/h200-2026-11-21/README.md)). None of these machines can delegate cgroup controllers; on [another](../lab/results/h200-boundary-2026-11-22/README.md) the effect of their limits on a kernel that takes all memory, processes or processors was measured, and the cost of a change of owner.',
    ...Object.entries(PROMISES).flatMap(([id, { promise, tests }]) => [
      '',
      `## ${promise}`,
      ...figuresOf(id as PromiseId, figures),
      '',
      `Shown by ${tests.map(link).join(', ')}.`,
    ]),
    '',
  ].join('\n');
  return formatMarkdown(text, PAGE_PATH);
}

/** Says which days were measured on which machine. */
function machinesOf(figures: SoakRun['figures']): string {
  const byMachine = Map.groupBy(figures, ({ machine }) => machine);
  const lines = [...byMachine].map(
    ([machine, of]) => `${machine}: ${[...new Set(of.map(({ date }) => date))].toSorted().join(', ')}`,
  );
  return `Machines: ${lines.toSorted().join('; ')}.`;
}

function figuresOf(id: PromiseId, figures: SoakRun['figures']): string[] {
  const rows = figures
    .filter(({ promise }) => promise === id)
    .map(({ what, value, date, seed }) => `| ${what} | ${value} | ${date}, ${seed} |`);
  return rows.length === 0
    ? ['', 'No campaign counts this; its tests run with all others.']
    : ['', '| what | found | day, seed |', '| --- | --- | --- |', ...rows];
}

const link = (path: string): string => `[${path.split('/').at(-1)}](../${path})`;

if (import.meta.main) {
  const run = readRun();
  if (!run) throw new Error('Run `npx nx soak test` first: it has stored no figures yet');
  writeFileSync(PAGE_PATH, await reliabilityPage(run));
}
