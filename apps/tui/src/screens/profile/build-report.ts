/** The compilers' report on a build: resources of each entry, theoretical occupancy and compile time. */
import type { BuildResult } from '@flashcore/shared/contract';
import { labelledBars } from '../../present/cells/bars.ts';
import { formatSeconds, formatPercent } from '../../present/numbers.ts';
import { textRow, wrapRows, type Row } from '../../present/cells/row.ts';
import { table } from '../../present/cells/table.ts';
import { inParts, isLaunched, ENTRY_COLUMNS } from '../../present/sections/build.ts';
import { notMeasured } from '../../present/words.ts';

export function buildReport(build: BuildResult, width: number): Row[] {
  const runs = build.runs.map(
    ({ compiler, version, target, seconds, cacheHit, parts }) =>
      `${compiler} ${version} for ${target}: ${cacheHit ? 'cached' : formatSeconds(seconds)}${inParts(parts)}`,
  );
  const compilers = runs.flatMap((text) => wrapRows(text, width, { role: 'dim', hang: 2 }));
  const title = textRow(`Compiler's report${build.arch === '' ? '' : `, ${build.arch}`}`, 'title');
  if (build.entries.length === 0)
    return [title, ...wrapRows(notMeasured(build.entriesMissing), width, { role: 'dim' }), ...compilers];
  const laid = table(ENTRY_COLUMNS, build.entries, width);
  const launched = build.entries.filter(isLaunched);
  const bars = labelledBars(
    launched.map(({ entry, occupancyPercent, occupancyLimiter }) => ({
      label: entry,
      value: occupancyPercent,
      text: `${formatPercent(occupancyPercent)} by ${occupancyLimiter}`,
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
