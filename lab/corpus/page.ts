/** Writes docs/cheating.md from the newest lab/results/corpus-<date>: before.json, emulator.json and gpu.json. */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatMarkdown } from '@flashcore/tools/format-markdown';
import { filesOf, jsonOf, RESULTS } from '../tables/results.ts';
import { repositoryRoot } from '@flashcore/test/support/repository-root';
import { nameOf, readCorpus, type Cheat } from '@flashcore/test/corpus';
import { merged, type CorpusResult, type JudgedCheat } from '@flashcore/test/run-corpus';

const ROOT = repositoryRoot();
export const PAGE_PATH = join(ROOT, 'docs/cheating.md');
const MAX_TEXT = 160;

/** The subject of each run, by the run's name in the files. */
const RUNS = {
  before: 'emulator, before the rules',
  emulator: 'emulator',
  gpu: 'GPU',
} as const;
type Run = keyof typeof RUNS;

interface StoredResults {
  folder: string;
  results: Partial<Record<Run, CorpusResult>>;
  /** The days on which the parts of a run ended. */
  days: Record<Run, string[]>;
}

/** The documents of the newest folder. Errors: if there is no folder. */
export function readResults(): StoredResults {
  const folder = readdirSync(RESULTS)
    .filter((name) => /^corpus-\d{4}-\d\d-\d\d$/.test(name))
    .sort()
    .at(-1);
  if (folder === undefined) throw new Error('Wanted a folder lab/results/corpus-<date>: run test/corpus/main.ts first');
  const corpus = readCorpus();
  const results: StoredResults['results'] = {};
  const days: StoredResults['days'] = { before: [], emulator: [], gpu: [] };
  for (const run of Object.keys(RUNS) as Run[]) {
    // A GPU that is available for only minutes runs the corpus in parts: gpu.json, gpu.2.json … New cheats are a part.
    for (const part of filesOf(folder, new RegExp(`^${run}(\\.\\d+)?\\.json$`))) {
      const now = jsonOf<CorpusResult>(folder, part)!;
      const earlier = results[run];
      results[run] = earlier ? merged(earlier, now, corpus) : now;
      days[run] = [...new Set([...days[run], now.date.slice(0, 10)])].toSorted();
    }
  }
  return { folder, results, days };
}

export function cheatingPage(): Promise<string> {
  const { folder, results, days } = readResults();
  const { cheats, families, rules, honest } = readCorpus();
  const runs = (Object.keys(RUNS) as Run[]).filter((run) => results[run]);
  const lines = [
    '# Kernels that cheat, and kernels that do not',
    '',
    // .prettierrc.json leaves this page's wide tables unpadded. The same setting keeps its prose in long lines.
    '<!-- markdownlint-disable MD013 -->',
    '',
    `Written by \`npm run corpus:page\` from [what the runs stored](../lab/results/${folder}). [kernels/corpus](../kernels/corpus/corpus.yaml) has ${cheats.length} dishonest kernels in ${Object.keys(families).length} families, written by people who read the judge's source, and ${honest.length} honest ones. Run both with \`node test/dist/corpus.js --out FILE\` in a clone after \`npm run build\`, or in the bundle for GPU hosts with \`bin/node test/dist/corpus.js --out FILE\`; it starts a runner of its own and takes the host's first device.`,
    '',
    ...table(
      ['run', 'device', 'date', 'cheats caught', 'honest kernels that pass'],
      runs.map((run) => {
        const { device, cheats: judged, honest: cleared } = results[run]!;
        return [
          RUNS[run],
          device,
          days[run].join(', '),
          `${judged.filter(({ caught }) => caught).length} of ${judged.length}`,
          `${cleared.filter(({ passed }) => passed).length} of ${cleared.length}`,
        ];
      }),
    ),
    ...Object.entries(families).flatMap(([family, title]) => [
      `## ${title}`,
      '',
      ...table(
        ['cheat', 'what it does', 'what should stop it', ...runs.map((run) => RUNS[run])],
        cheats
          .filter((cheat) => cheat.family === family)
          .map((cheat) => [
            [`\`${cheat.name}\``, ...Object.values(cheat.parameters).map((number) => `(${number})`)].join(' '),
            cheat.does,
            rules[cheat.rule]!,
            ...runs.map((run) => verdictOf(cheat, run, results[run]!)),
          ]),
      ),
    ]),
    '## Honest kernels',
    '',
    ...table(
      ['kernel', 'what it is', ...runs.map((run) => RUNS[run])],
      honest.map((kernel) => [
        nameOf(kernel),
        kernel.why,
        ...runs.map((run) => {
          const judged = results[run]!.honest.find((each) => nameOf(each) === nameOf(kernel));
          if (!judged) return 'not run';
          const seeds = judged.seeds === undefined ? '' : `, ${judged.seeds} inputs`;
          return judged.passed
            ? `passes${seeds}`
            : `**accused**: ${shown(judged.findings[0]?.message ?? judged.outcome)}`;
        }),
      ]),
    ),
  ];
  return formatMarkdown(lines.join('\n'), PAGE_PATH);
}

/** The finding that caught the cheat, or "passes" with what the cheat gained. */
function verdictOf(cheat: Cheat, run: Run, result: CorpusResult): string {
  const judged = result.cheats.find(({ name }) => name === cheat.name);
  if (!judged) return 'not run';
  const [finding] = judged.findings;
  if (finding && judged.caught) return `${finding.kind}: ${shown(finding.message)}`;
  if (judged.error !== undefined) return `not judged: ${shown(judged.error)}`;
  if (cheat.rule === 'no_gain') return 'passes; it gains nothing';
  const why = run === 'before' ? undefined : cheat.passes[run];
  return `**passes**, gains ${cheat.gains}${why === undefined ? '' : `: ${why}`}${timesOf(judged, result)}`;
}

/** The times of the cheat and of its family's honest kernel on a GPU. */
function timesOf(judged: JudgedCheat, { simulated, honest }: CorpusResult): string {
  const own = honest.find(({ kernel, parameters }) => kernel.endsWith(judged.family) && parameters['CHEAT'] === 0);
  if (simulated || !own) return '';
  const time = (mode: string, us?: number, honestUs?: number): string[] =>
    us === undefined || honestUs === undefined ? [] : [`${mode} ${us.toFixed(0)} us, honest ${honestUs.toFixed(0)}`];
  const times = [...time('cold', judged.coldUs, own.coldUs), ...time('hot', judged.hotUs, own.hotUs)];
  return times.length === 0 ? '' : ` (${times.join('; ')})`;
}

const shown = (text: string): string =>
  (text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT - 1)}…` : text).replaceAll('|', '\\|').replaceAll('<', '&lt;');

function table(header: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(header), line(header.map(() => '---')), ...rows.map(line), ''];
}

if (import.meta.main) writeFileSync(PAGE_PATH, await cheatingPage());
