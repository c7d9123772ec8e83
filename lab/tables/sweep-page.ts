/** Tables of a sweep, which compares kernels exported to PyTorch with SDPA. tools/sweep_exported.py measures it. */
import { fixed, markdownTable } from './markdown.ts';
import { foldersWith, jsonOf } from './results.ts';

const SWEEP_FILE = 'sweep.json';
/** Shapes that were drawn at random and that nobody had looked at before. */
const UNSEEN_FILE = 'unseen.json';

interface Ratio {
  readonly ratio: number;
  readonly low: number;
  readonly high: number;
}

interface Subject {
  readonly p50_us?: number;
  readonly max_abs_error?: number;
  readonly mean_abs_error?: number;
  readonly over_sdpa?: Ratio;
}

interface Row {
  readonly shape: string;
  readonly subjects: Readonly<Record<string, Subject>>;
  readonly fastest_sdpa?: string;
}

interface AtShape {
  readonly shape: string;
  readonly ratio: number;
}

interface Summary {
  readonly shapes: number;
  readonly geometric_mean: number;
  readonly worst: AtShape;
  readonly best: AtShape;
}

interface Sweep {
  readonly device: string;
  readonly pytorch: string;
  readonly rounds: number;
  readonly rows: readonly Row[];
  readonly summary: Readonly<Record<string, Summary>>;
}

/** The page of a folder with a sweep; undefined for other folders. */
export function sweepPage(folder: string): string | undefined {
  const sweep = jsonOf<Sweep>(folder, SWEEP_FILE);
  return (
    sweep &&
    `# ${folder}\n\n${sweepMarkdown(sweep, unseenOf(folder))}\nThe commands are in [commands.txt](commands.txt).\n`
  );
}

/** The tables of the newest folder that has a sweep. */
export function newestSweepMarkdown(): string {
  const folder = newestSweep();
  return `${sweepMarkdown(jsonOf<Sweep>(folder, SWEEP_FILE)!, unseenOf(folder))}\nFrom lab/results/${folder}.\n`;
}

/** One sentence on the fastest kernel of the newest sweep, with its worst and its best shape. */
export function sweepSentence(): string {
  const folder = newestSweep();
  const { summary, device, rows } = jsonOf<Sweep>(folder, SWEEP_FILE)!;
  const [kernel, { shapes, geometric_mean, worst, best }] = Object.entries(summary).toSorted(
    ([, a], [, b]) => b.geometric_mean - a.geometric_mean,
  )[0]!;
  const { low, high } = rows.find(({ shape }) => shape === worst.shape)!.subjects[kernel]!.over_sdpa!;
  const unseen = unseenOf(folder)?.summary[kernel];
  return (
    `Over ${shapes} shapes on one ${device}, exported to PyTorch and timed by a program of its own, ${kernel} was ` +
    `${fixed(geometric_mean, 2)} times as fast as the fastest SDPA backend (geometric mean): ` +
    `${fixed(worst.ratio, 3)} (95 % interval ${fixed(low, 3)} to ${fixed(high, 3)}) at its worst shape, ${worst.shape}, ` +
    `${fixed(best.ratio, 2)} at its best, ${best.shape}.` +
    (unseen ? ` ${unseenSentence(unseen)}` : '')
  );
}

const unseenSentence = ({ shapes, geometric_mean, worst }: Summary): string =>
  `Over ${shapes} others, drawn at random and not looked at before, it was ${fixed(geometric_mean, 2)} times as fast, ` +
  `${fixed(worst.ratio, 3)} at the worst, ${worst.shape}.`;

const unseenOf = (folder: string): Sweep | undefined => jsonOf<Sweep>(folder, UNSEEN_FILE);

const newestSweep = (): string => foldersWith(/^sweep\.json$/).at(-1)!;

function sweepMarkdown({ device, pytorch, rounds, rows, summary }: Sweep, unseen?: Sweep): string {
  const kernels = Object.keys(summary);
  const means = [
    ...Object.entries(summary).map((each) => meanRow(each, 'below')),
    ...Object.entries(unseen?.summary ?? {}).map((each) => meanRow(each, `drawn at random (${UNSEEN_FILE})`)),
  ];
  const [first] = kernels;
  const table = rows.map(({ shape, subjects, fastest_sdpa }) => {
    const sdpa = fastest_sdpa === undefined ? undefined : subjects[fastest_sdpa];
    const ours = subjects[first!];
    return [
      shape,
      ...kernels.map((kernel) => fixed(subjects[kernel]?.p50_us, 2)),
      sdpa ? `${fixed(sdpa.p50_us, 2)} ${fastest_sdpa}` : '-',
      ours?.over_sdpa
        ? `${fixed(ours.over_sdpa.ratio, 3)} (${fixed(ours.over_sdpa.low, 3)} to ${fixed(ours.over_sdpa.high, 3)})`
        : '-',
      fixed(share(ours?.max_abs_error, sdpa?.max_abs_error), 2),
      fixed(share(ours?.mean_abs_error, sdpa?.mean_abs_error), 3),
    ];
  });
  return [
    `One ${device}, PyTorch ${pytorch.split('+')[0]}: kernels exported by \`fa-tui export --torch\` and every SDPA`,
    `backend, in CUDA graphs, ${rounds} rounds in an order drawn anew for each, medians in microseconds. A ratio is the`,
    `fastest backend's median over the kernel's, with its 95 % interval; errors are ${first}'s over that backend's, against`,
    'fp64. Not the program’s own protocol, and large shapes run at the power limit: compare within a row.',
    '',
    markdownTable(['kernel', 'shapes', 'geometric mean over SDPA', 'least', 'most'], means),
    markdownTable(['shape', ...kernels, 'fastest SDPA', `SDPA / ${first}`, 'max error', 'mean error'], table),
  ].join('\n');
}

function meanRow([kernel, { shapes, geometric_mean, worst, best }]: [string, Summary], which: string): string[] {
  return [
    kernel,
    `${shapes} ${which}`,
    fixed(geometric_mean, 3),
    `${fixed(worst.ratio, 3)} at ${worst.shape}`,
    `${fixed(best.ratio, 3)} at ${best.shape}`,
  ];
}

const share = (ours: number | undefined, theirs: number | undefined): number | undefined =>
  ours === undefined || !theirs ? undefined : ours / theirs;
