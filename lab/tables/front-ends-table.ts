/** The emulator's results for the same kernels with the PTX of each front end. */
import { markdownTable } from './markdown.ts';
import { foldersWith, jsonOf } from './results.ts';

export const FRONT_ENDS = ['nvcc', 'nvrtc', 'clang'] as const;
export type FrontEndName = (typeof FRONT_ENDS)[number];

/** lab/results/emulator-<date>/front-ends.<front end>.json */
export interface FrontEndReport {
  frontEnd: FrontEndName;
  command: string;
  /** A description of the verified cases. */
  cases: string;
  /** The tools of the result's provenance, with their versions. */
  tools: string[];
  rows: FrontEndRow[];
}

interface FrontEndRow {
  kernel: string;
  /** The build's parameters, or "default", or "faulty". */
  build: string;
  /** The job's outcome; for a faulty kernel its findings with their lines. */
  outcome: string;
}

const TITLES: Record<FrontEndName, string> = { nvcc: 'nvcc', nvrtc: 'NVRTC', clang: 'clang alone' };

/** A table for docs/emulator.md, from each front end's newest run of `npm run front-ends`. */
export function frontEndsMarkdown(): string {
  const [first, ...others] = FRONT_ENDS.flatMap((name) => newestOf(name) ?? []);
  if (first === undefined) return 'Not compared yet.\n';
  const keyOf = ({ kernel, build }: FrontEndRow): string => `${kernel} ${build}`;
  const columns = others.map(({ report }) => new Map(report.rows.map((row) => [keyOf(row), row.outcome])));
  const saysSame = others.map(({ report, file }, n) => {
    const compared = first.report.rows.filter((row) => columns[n]!.has(keyOf(row)));
    const same = compared.filter((row) => columns[n]!.get(keyOf(row)) === row.outcome).length;
    return `${same} of ${compared.length} builds are judged alike with the PTX of ${compilerOf(first.report)} and of ${compilerOf(report)} (${file}; cases: ${report.cases}).`;
  });
  const rows = first.report.rows.map((row) => [
    row.kernel,
    row.build,
    row.outcome,
    ...columns.map((column) => comparedTo(row.outcome, column.get(keyOf(row)))),
  ]);
  return [
    `${[...saysSame, `nvcc's: ${first.file}; cases: ${first.report.cases}.`].join(' ')}\n`,
    'Where they differ:\n',
    markdownTable(
      ['kernel', 'build', TITLES[first.report.frontEnd], ...others.map(({ report }) => TITLES[report.frontEnd])],
      rows.filter((row) => row.slice(FIRST_COMPARED).some((cell) => cell !== SAME)),
    ),
  ].join('\n');
}

const SAME = 'the same';
/** Index of the column that follows kernel, build and the first front end's result. */
const FIRST_COMPARED = 3;

function comparedTo(wanted: string, outcome: string | undefined): string {
  if (outcome === undefined) return 'not compared';
  return outcome === wanted ? SAME : `**${outcome}**`;
}

function newestOf(name: FrontEndName): { file: string; report: FrontEndReport } | undefined {
  const file = `front-ends.${name}.json`;
  const folder = foldersWith(new RegExp(`^front-ends\\.${name}\\.json$`)).findLast((each) =>
    each.startsWith('emulator-'),
  );
  if (folder === undefined) return undefined;
  return { file: `lab/results/${folder}/${file}`, report: jsonOf<FrontEndReport>(folder, file)! };
}

const compilerOf = ({ tools, frontEnd }: FrontEndReport): string => {
  const compiler = tools.find((tool) => /^(?:nvcc|nvrtc|clang(?:\+\+)?) /.test(tool)) ?? 'nothing';
  return frontEnd === 'clang' ? `${compiler} without a toolkit` : compiler;
};
