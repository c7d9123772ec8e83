/** View 4: what the compiler says of each entry, what follows for occupancy, and the hardware counters or why there are none. */
import { Verdict, type EntryResources, type Metric, type ProfileResult } from '@flashcore/shared';
import { labelledBars } from '../plot/bars.ts';
import { formatBytes, formatNumber, formatSeconds } from '../plot/format.ts';
import { BLANK_ROW, run, textRow, wrapRows, type Row, type Run } from '../plot/row.ts';
import { table, type Column } from '../plot/table.ts';
import type { VariantView } from '../state/job-view.ts';
import { nothingText, shownVariant } from '../state/selectors.ts';
import type { AppState } from '../state/app-state.ts';
import { notMeasured } from '../state/words.ts';
import { scrolled, type View } from './view.ts';

const badAbove = (limit: number, value: number, text: string): Run => run(text, value > limit ? 'warn' : undefined);

const ENTRY_COLUMNS: Column<EntryResources>[] = [
  { title: 'entry', cell: ({ entry }) => entry, shrinkTo: 12 },
  { title: 'regs', align: 'right', cell: ({ registersPerThread }) => badAbove(64, registersPerThread, String(registersPerThread)) },
  { title: 'SMEM', align: 'right', cell: ({ staticSmemBytes, dynamicSmemBytes }) => badAbove(49_152, staticSmemBytes + dynamicSmemBytes, formatBytes(staticSmemBytes + dynamicSmemBytes)) },
  { title: 'dynamic', align: 'right', drop: 4, cell: ({ dynamicSmemBytes }) => formatBytes(dynamicSmemBytes) },
  { title: 'spills', align: 'right', cell: ({ spillStoreBytes, spillLoadBytes }) => badAbove(0, spillStoreBytes + spillLoadBytes, formatBytes(spillStoreBytes + spillLoadBytes)) },
  { title: 'stack', align: 'right', drop: 3, cell: ({ stackBytes }) => badAbove(0, stackBytes, formatBytes(stackBytes)) },
  { title: 'barriers', align: 'right', drop: 6, cell: ({ barriers }) => String(barriers) },
  { title: 'constant', align: 'right', drop: 7, cell: ({ constantBytes }) => formatBytes(constantBytes) },
  { title: 'threads', align: 'right', drop: 5, cell: ({ threadsPerCta }) => String(threadsPerCta) },
  { title: 'CTAs/SM', align: 'right', cell: ({ ctasPerSm }) => String(ctasPerSm) },
  { title: 'occupancy', align: 'right', drop: 1, cell: ({ occupancyPercent }) => `${formatNumber(Math.round(occupancyPercent * 10) / 10)} %` },
  { title: 'bound by', drop: 2, cell: ({ occupancyLimiter }) => occupancyLimiter },
];

const METRIC_COLUMNS: Column<Metric>[] = [
  { title: 'counter', cell: ({ name }) => name, shrinkTo: 16 },
  { title: 'value', align: 'right', cell: ({ value, unit }) => `${formatNumber(value)} ${unit}` },
  { title: 'source', drop: 1, shrinkTo: 10, cell: ({ source }) => run(source, 'dim') },
];

export const profileView: View = ({ state }, size) =>
  scrolled(`4 Profile  ${shownVariant(state)?.label ?? ''}`.trimEnd(), profileRows(state, size.width), { ...size, top: state.ui.selected.profile });

/** The whole view; the pane shows a window of it. */
export function profileRows(state: AppState, width: number): Row[] {
  const variant = shownVariant(state);
  const nothing = nothingText(state, { pending: "Nothing is built yet: the compiler's figures and the counters stand here after a job.", ended: 'Nothing was built in this job.' });
  if (variant?.build === undefined) return wrapRows(nothing, width, { role: 'dim' });
  return [...buildRows(variant, width), BLANK_ROW, ...counterRows(variant, width, nothingText(state, { pending: 'not measured yet', ended: 'not measured: the job ended before' }))];
}

function buildRows({ build }: VariantView, width: number): Row[] {
  if (build === undefined) return [];
  const runs = build.runs.map(({ compiler, version, target, seconds, cacheHit }) => `${compiler} ${version} for ${target}: ${cacheHit ? 'cached' : formatSeconds(seconds)}`);
  const compilers = runs.flatMap((text) => wrapRows(text, width, { role: 'dim', hang: 2 }));
  const title = textRow(`Compiler's report${build.arch === '' ? '' : `, ${build.arch}`}`, 'title');
  if (build.entries.length === 0) return [title, ...wrapRows(build.entriesMissing || 'not measured', width, { role: 'unknown' }), ...compilers];
  const laid = table(ENTRY_COLUMNS, build.entries, width);
  const bars = labelledBars(build.entries.map(({ entry, occupancyPercent, occupancyLimiter }) => ({ label: entry, value: occupancyPercent, text: `${formatNumber(Math.round(occupancyPercent * 10) / 10)} % by ${occupancyLimiter}` })), { width, full: 100 });
  return [title, laid.header, ...laid.rows, textRow('Theoretical occupancy', 'title'), ...bars, ...compilers];
}

function counterRows({ profile, profiling }: VariantView, width: number, nothing: string): Row[] {
  const title = textRow('Hardware counters', 'title');
  if (profile === undefined) return [title, ...wrapRows(profiling === undefined ? nothing : profiling.message, width, { role: 'dim' })];
  if (profile.verdict === Verdict.NOT_MEASURED) return [title, ...wrapRows(notMeasured(profile.reason), width, { role: 'unknown' }), ...adviceRows(profile, width)];
  const laid = table(METRIC_COLUMNS, profile.metrics, width);
  const most = Math.max(...profile.stalls.map(({ value }) => value), 1e-9);
  return [
    title, laid.header, ...laid.rows,
    ...(profile.stalls.length === 0 ? [] : [textRow('Stalls, warp cycles per issued instruction', 'title'), ...labelledBars(profile.stalls.map(({ name, value }) => ({ label: name, value, text: formatNumber(value) })), { width, full: most })]),
    ...adviceRows(profile, width),
  ];
}

function adviceRows({ bottleneck, advice }: ProfileResult, width: number): Row[] {
  return [
    ...(bottleneck === '' ? [] : wrapRows(`bound by: ${bottleneck}`, width, { role: 'accent', hang: 2 })),
    ...advice.flatMap(({ text, evidence }) => [...wrapRows(`→ ${text}`, width, { hang: 2 }), ...(evidence === '' ? [] : wrapRows(evidence, width, { role: 'dim', indent: 2, hang: 2 }))]),
  ];
}
