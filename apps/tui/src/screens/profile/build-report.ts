/** What the compilers say of a build: resources of each entry, theoretical occupancy, how long it took. */
import type { BuildResult, EntryResources } from '@flashcore/shared/contract';
import { labelledBars } from '../../present/cells/bars.ts';
import { formatBytes, formatNumber, formatSeconds } from '../../present/numbers.ts';
import { run, textRow, wrapRows, type Row, type Run } from '../../present/cells/row.ts';
import { table, type Column } from '../../present/cells/table.ts';
import { notMeasured } from '../../present/words.ts';

const badAbove = (limit: number, value: number, text: string): Run => run(text, value > limit ? 'warn' : undefined);

const percent = (value: number): string => `${formatNumber(Math.round(value * 10) / 10)} %`;

// The entry's name is never cut: what it is called tells entries apart.
const ENTRY_COLUMNS: Column<EntryResources>[] = [
  { title: 'entry', cell: ({ entry }) => entry },
  {
    title: 'regs',
    align: 'right',
    cell: ({ registersPerThread }) => badAbove(64, registersPerThread, String(registersPerThread)),
  },
  {
    title: 'SMEM',
    align: 'right',
    cell: ({ staticSmemBytes, dynamicSmemBytes }) =>
      badAbove(49_152, staticSmemBytes + dynamicSmemBytes, formatBytes(staticSmemBytes + dynamicSmemBytes)),
  },
  { title: 'dynamic', align: 'right', drop: 4, cell: ({ dynamicSmemBytes }) => formatBytes(dynamicSmemBytes) },
  {
    title: 'spills',
    align: 'right',
    cell: ({ spillStoreBytes, spillLoadBytes }) =>
      badAbove(0, spillStoreBytes + spillLoadBytes, formatBytes(spillStoreBytes + spillLoadBytes)),
  },
  {
    title: 'stack',
    align: 'right',
    drop: 3,
    cell: ({ stackBytes }) => badAbove(0, stackBytes, formatBytes(stackBytes)),
  },
  { title: 'barriers', align: 'right', drop: 6, cell: ({ barriers }) => String(barriers) },
  { title: 'constant', align: 'right', drop: 7, cell: ({ constantBytes }) => formatBytes(constantBytes) },
  { title: 'threads', align: 'right', drop: 5, cell: ({ threadsPerCta }) => String(threadsPerCta) },
  { title: 'CTAs/SM', align: 'right', cell: ({ ctasPerSm }) => String(ctasPerSm) },
  { title: 'occupancy', align: 'right', drop: 1, cell: ({ occupancyPercent }) => percent(occupancyPercent) },
  { title: 'bound by', drop: 2, cell: ({ occupancyLimiter }) => occupancyLimiter ?? '-' },
];

export function buildReport(build: BuildResult, width: number): Row[] {
  const runs = build.runs.map(
    ({ compiler, version, target, seconds, cacheHit }) =>
      `${compiler} ${version} for ${target}: ${cacheHit ? 'cached' : formatSeconds(seconds)}`,
  );
  const compilers = runs.flatMap((text) => wrapRows(text, width, { role: 'dim', hang: 2 }));
  const title = textRow(`Compiler's report${build.arch === '' ? '' : `, ${build.arch}`}`, 'title');
  if (build.entries.length === 0)
    return [
      title,
      ...wrapRows(build.entriesMissing ? notMeasured(build.entriesMissing) : 'not measured', width, {
        role: 'unknown',
      }),
      ...compilers,
    ];
  const laid = table(ENTRY_COLUMNS, build.entries, width);
  // An entry that no shape of the job launches has no occupancy to speak of.
  const launched = build.entries.filter(({ occupancyPercent }) => occupancyPercent > 0);
  const bars = labelledBars(
    launched.map(({ entry, occupancyPercent, occupancyLimiter }) => ({
      label: entry,
      value: occupancyPercent,
      text: `${percent(occupancyPercent)} by ${occupancyLimiter ?? '-'}`,
    })),
    { width, full: 100 },
  );
  return [
    title,
    laid.header,
    ...laid.rows,
    ...(bars.length === 0 ? [] : [textRow('Theoretical occupancy', 'title'), ...bars]),
    ...compilers,
  ];
}
