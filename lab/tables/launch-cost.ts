/**
 * The cost of a launch in a graph and as ncu measures it, from overlap.json of a results folder and the ncu runs next
 * to it.
 */
import { figure, type Table } from './markdown.ts';
import { jsonOf, textOf } from './results.ts';

interface OverlapReport {
  rows: OverlapRow[];
}

interface OverlapRow {
  kernel: string;
  /** "graph of 20", or the name of another way to launch. */
  name: string;
  launches: number;
  usPerLaunch: number;
}

const overlapOf = (folder: string): OverlapReport | undefined => jsonOf(folder, 'overlap.json');

/** Hot time by the number of launches in a graph, and the time that an empty kernel after each launch adds. */
export function graphRows(folder: string): Table {
  const report = overlapOf(folder);
  if (!report) return undefined;
  const names = [...new Set(report.rows.map(({ name }) => name))];
  return [
    ['kernel', ...names],
    ...[...Map.groupBy(report.rows, ({ kernel }) => kernel)].map(([kernel, rows]) => {
      const times = new Map(rows.toReversed().map(({ name, usPerLaunch }) => [name, usPerLaunch]));
      return [kernel, ...names.map((name) => times.get(name)?.toFixed(2) ?? '')];
    }),
  ];
}

/** The part of a single launch's cost that a graph hides. */
export function hiddenInGraphs(folder: string): string {
  const empty = overlapOf(folder)
    ?.rows.filter(({ kernel }) => kernel === 'empty')
    .sort((a, b) => b.launches - a.launches)[0];
  return empty ? `all but ${figure(empty.usPerLaunch)} us` : 'most';
}

/**
 * ncu's time of a launch with warm caches, the part of it in which an SM worked, and our hot figure. ncu's time exceeds
 * the time in a graph by the same amount for an empty kernel as for any other kernel.
 */
export function overlapRows(folder: string): Table {
  const report = overlapOf(folder);
  if (!report) return undefined;
  const kernels = [...new Set(report.rows.map(({ kernel }) => kernel))];
  const measured = kernels.map((kernel) => ({ kernel, ...ncuOf(folder, kernel), hotUs: hotUsOf(report, kernel) }));
  const empty = measured.find(({ kernel }) => kernel === 'empty')!;
  return [
    [
      'kernel',
      'ncu gpu__time_duration',
      'of it an SM works',
      'hot',
      'hot over ncu',
      'ncu, less what an empty kernel has more by ncu',
      'hot over that',
      'SM works, plus an empty launch in a graph',
      'hot over that',
    ],
    ...measured.map(({ kernel, durationUs, activeUs, hotUs }) => {
      const [less, plus] = [durationUs - (empty.durationUs - empty.hotUs), activeUs + empty.hotUs];
      return [
        kernel,
        figure(durationUs),
        figure(activeUs),
        figure(hotUs),
        figure(hotUs / durationUs, 3),
        ...(kernel === 'empty'
          ? ['', '', '', '']
          : [figure(less), figure(hotUs / less, 3), figure(plus), figure(hotUs / plus, 3)]),
      ];
    }),
  ];
}

const hotUsOf = ({ rows }: OverlapReport, wanted: string): number =>
  rows.findLast(({ kernel, name }) => kernel === wanted && name.startsWith('graph of '))!.usPerLaunch;

/**
 * Medians over the launches of a recorded ncu run, in microseconds. Cycles are converted with the clock of their
 * launch.
 */
function ncuOf(folder: string, kernel: string): { durationUs: number; activeUs: number } {
  const text = textOf(folder, `overlap.ncu.${kernel}.cache-none.csv`) ?? '';
  const rows = text.matchAll(/^"(\d+)",.*"((?:gpu|sm)__[\w.]+)","[^"]*","([\d.,]+)"$/gm);
  const launches = [...Map.groupBy(rows, ([, id]) => id).values()].map(
    (values) => new Map(values.map(([, , name, value]) => [name!, Number(value!.replaceAll(',', ''))])),
  );
  const of = (launch: Map<string, number>, name: string): number => launch.get(name) ?? NaN;
  return {
    durationUs: median(launches.map((launch) => of(launch, 'gpu__time_duration.sum') / 1e3)),
    activeUs: median(
      launches.map(
        (launch) => (1e6 * of(launch, 'sm__cycles_active.max')) / of(launch, 'sm__cycles_elapsed.avg.per_second'),
      ),
    ),
  };
}

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? NaN;
