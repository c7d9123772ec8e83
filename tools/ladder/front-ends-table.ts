/** What the emulator says of the same kernels compiled by nvcc and by clang without a CUDA toolkit. */
import { markdownTable } from './markdown.ts';
import { foldersWith, jsonOf } from './results.ts';

export interface FrontEndComparison {
  kernel: string;
  /** Its parameters; "default"; "faulty". */
  build: string;
  /** The job's outcome; of a faulty kernel its findings with their lines. */
  nvcc: string;
  clang: string;
}

interface Report {
  command: string;
  tools: { nvcc: string[]; clang: string[] };
  rows: FrontEndComparison[];
}

/** For docs/emulator.md, from the newest run of `npm run front-ends`. */
export function frontEndsMarkdown(): string {
  const folder = foldersWith(/^front-ends\.json$/).findLast((name) => name.startsWith('emulator-'));
  if (folder === undefined) return 'Not compared yet.\n';
  const { tools, rows } = jsonOf<Report>(folder, 'front-ends.json')!;
  const same = rows.filter(({ nvcc, clang }) => nvcc === clang).length;
  return [
    `${same} of ${rows.length} builds are judged alike with the PTX of ${compilerOf(tools.nvcc)} and of ${compilerOf(tools.clang)} without a toolkit (docs/results/${folder}/front-ends.json).\n`,
    markdownTable(
      ['kernel', 'build', 'nvcc', 'clang alone'],
      rows.map(({ kernel, build, nvcc, clang }) => [kernel, build, nvcc, clang === nvcc ? 'the same' : `**${clang}**`]),
    ),
  ].join('\n');
}

const compilerOf = (tools: readonly string[]): string =>
  tools.find((tool) => /^(?:nvcc|clang(?:\+\+)?) /.test(tool)) ?? 'nothing';
