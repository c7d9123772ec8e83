/** The site's gallery of the ladder: each step's lesson, figure and counters, and its diff to the previous step. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Manifest } from '@flashcore/shared/kernels';
import { ladderSteps } from '@flashcore/tools/ladder-steps';
import { fixed, markdownTable } from './markdown.ts';
import { experimentsOf, laddersMeasured, rowsOf, type LadderRow } from './results.ts';

const KERNELS = join(import.meta.dirname, '../../kernels');

/** The page's Markdown, made from the manifests in the ladder's order and from the newest measured ladder. */
export function galleryMarkdown(steps: readonly Manifest[]): string {
  const folder = laddersMeasured().at(-1);
  const rows = folder === undefined ? [] : rowsOf(folder, /^run\..*\.json$/).filter(({ fallback }) => !fallback);
  const device =
    folder === undefined ? '' : (experimentsOf(folder, /^run\..*\.json$/)[0]?.result?.provenance?.device?.name ?? '');
  return [
    '# The ladder, step by step',
    folder === undefined
      ? 'Nothing measured yet.'
      : `Figures are hot p50 on one ${device}, from lab/results/${folder}; [kernels](kernels/README.md) has all tables.`,
    ...steps.flatMap((step) => stepMarkdown(step, rows)),
    '',
  ].join('\n\n');
}

function stepMarkdown({ id, title, lesson, after, source }: Manifest, rows: readonly LadderRow[]): string[] {
  const of = (kernel: string | undefined) => rows.find((row) => row.kernel === kernel);
  const row = of(id);
  return [
    `## ${id}`,
    `**${title}.** ${sentence(lesson)}`,
    row === undefined ? 'Not measured.' : figures(row, of(after)),
    ...(after === undefined ? [] : [`From ${after} to ${id}:`, diff(after, id, source)]),
  ];
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

function figures({ benchmark, variant }: LadderRow, before: LadderRow | undefined): string {
  const { p50Us } = benchmark.latency!;
  const stepBefore = before ? fixed(before.benchmark.latency!.p50Us / p50Us, 2) : '-';
  const counters = (variant.profile?.metrics ?? []).map(({ name, value, unit }) => [
    name.replaceAll('_', ' '),
    `${fixed(value, 2)} ${unit}`.trim(),
  ]);
  return markdownTable(
    ['figure', 'value'],
    [['p50', `${fixed(p50Us, 2)} us`], ['times as fast as the step before', stepBefore], ...counters],
  );
}

/** The complete diff of the sources, because it is the lesson. */
function diff(before: string, after: string, source: string): string {
  const file = (kernel: string, name: string): string => join(kernel, name);
  const { stdout } = spawnSync(
    'git',
    ['diff', '--no-index', '--no-color', '--no-ext-diff', file(before, `${before}.cu`), file(after, source)],
    { cwd: KERNELS, encoding: 'utf8', maxBuffer: 16 * 2 ** 20 },
  );
  return `\`\`\`\`diff\n${stdout.slice(stdout.indexOf('\n--- ') + 1).trimEnd()}\n\`\`\`\``;
}

// tools/docs/site.ts runs this file with the path of the page.
if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href)
  writeFileSync(process.argv[2]!, galleryMarkdown(await ladderSteps()));
