/** View 3 while comparing: A is the job on the screen, B the baseline. What both measured and need, and their distributions mirrored. */
import { formatCount, formatError, formatMicroseconds } from '../plot/format.ts';
import { mirroredHistogram } from '../plot/mirrored.ts';
import { padCells } from '../plot/cells.ts';
import { run, wrapRows, type Role, type Row, type Run } from '../plot/row.ts';
import { table, type Column } from '../plot/table.ts';
import type { AppState } from '../state/app-state.ts';
import { comparisonOf, mostOf, type Comparison, type ComparisonVerdict, type LatencyPair } from '../state/comparison.ts';
import type { VariantView } from '../state/job-view.ts';
import { MODE_WORDS, jobTitle, shapeShort, shortName } from '../state/words.ts';
import { list } from './list.ts';
import { SIMULATED_BADGE, SIMULATED_TEXT, positionRemark, type PaneContent, type Size } from './view.ts';

const VERDICT_ROLES: Record<ComparisonVerdict, Role> = { faster: 'good', slower: 'bad', 'no difference shown': 'unknown' };
const TITLE = '3 Latency  A vs B';

const time = (side: 'a' | 'b') => (pair: LatencyPair): string => (pair[side].latency === undefined ? '-' : formatMicroseconds(pair[side].latency.p50Us));

const COLUMNS: Column<LatencyPair>[] = [
  { title: 'case', cell: ({ a }) => shapeShort(a.shape) },
  { title: 'mode', cell: ({ a }) => MODE_WORDS[a.mode] },
  { title: 'A p50', align: 'right', cell: time('a') },
  { title: 'B p50', align: 'right', cell: time('b') },
  { title: 'B/A [95 %]', align: 'right', drop: 1, cell: ({ ratio }) => (ratio === undefined ? '-' : `${ratio.ratio.toFixed(3)} [${ratio.low.toFixed(3)}, ${ratio.high.toFixed(3)}]`) },
  { title: 'A is', shrinkTo: 12, cell: ({ verdict, notCompared = '' }) => (verdict === undefined ? run(`not compared: ${notCompared}`, 'unknown') : run(verdict, VERDICT_ROLES[verdict])) },
];

export function comparePane(state: AppState, size: Size): PaneContent {
  const comparison = comparisonOf(state);
  if (comparison === undefined) return { title: TITLE, body: wrapRows('The baseline is still being read, or it has no results. b on another job takes that one, c ends comparing.', size.width, { role: 'dim' }) };
  const { pairs } = comparison;
  const simulated = pairs.some(({ a, b }) => a.simulated || b.simulated);
  const head: Row[] = [...(simulated ? [[run(padCells(` ${SIMULATED_TEXT}`, size.width), 'simulated')]] : []), ...factRows(comparison, size.width)];
  const selected = Math.min(state.ui.selected.latency, Math.max(0, pairs.length - 1));
  const listHeight = Math.min(pairs.length + 1, Math.max(3, Math.floor((size.height - head.length) * 0.4)));
  const rows = pairs.length === 0 ? wrapRows('A and B measured no shape in common.', size.width, { role: 'dim' }) : list(COLUMNS, pairs, { width: size.width, height: listHeight, selected, focused: state.ui.view === 'latency' });
  const chosen = pairs[selected];
  const room = size.height - head.length - rows.length - 1;
  return {
    title: TITLE,
    ...(simulated && { badge: SIMULATED_BADGE }),
    remark: positionRemark(selected, pairs.length, 'measurement'),
    body: [...head, ...rows, [run('─'.repeat(size.width), 'border')], ...(chosen === undefined || room < 4 ? [] : distributions(chosen, { width: size.width, height: room }))].slice(0, size.height),
  };
}

interface Fact {
  readonly name: string;
  readonly of: (variant: VariantView) => string;
}

const figure = (value: number | undefined, unit = ''): string => (value === undefined ? 'not measured' : `${formatCount(value)}${unit}`);

const FACTS: readonly Fact[] = [
  { name: 'registers', of: (variant) => figure(mostOf(variant, (entry) => entry.registersPerThread)) },
  { name: 'SMEM', of: (variant) => figure(mostOf(variant, (entry) => entry.staticSmemBytes + entry.dynamicSmemBytes), ' B') },
  { name: 'spills', of: (variant) => figure(mostOf(variant, (entry) => entry.spillStoreBytes + entry.spillLoadBytes), ' B') },
  { name: 'max error', of: ({ cases }) => (cases.length === 0 ? 'not measured' : formatError(Math.max(...cases.map(({ maxAbsError }) => maxAbsError)))) },
  { name: 'mismatches', of: ({ cases }) => (cases.length === 0 ? 'not measured' : formatCount(cases.reduce((sum, { mismatches }) => sum + Number(mismatches), 0))) },
];

/** A table of two rows, one for each job. */
function factRows({ a, b }: Comparison, width: number): Row[] {
  const sides = [{ mark: 'A', role: 'bar', ...a }, { mark: 'B', role: 'barAlternative', ...b }] as const;
  const same = a.job.provenance?.sourceDigest !== undefined && a.job.provenance.sourceDigest === b.job.provenance?.sourceDigest;
  const columns: Column<(typeof sides)[number]>[] = [
    { title: '', cell: ({ mark, role }): Run => run(mark, role) },
    { title: 'job', shrinkTo: 14, cell: ({ job }) => run(`${jobTitle(job)} ${shortName(job.name)}`, 'title') },
    ...FACTS.map(({ name, of }, index): Column<(typeof sides)[number]> => ({ title: name, align: 'right', drop: index + 2, cell: ({ variant }) => of(variant) })),
    { title: 'source', drop: 3, cell: ({ job }) => run(`${job.provenance?.sourceDigest.slice(0, 10) ?? '-'}${same ? ' same' : ''}`, 'dim') },
  ];
  const { header, rows } = table(columns, sides, width);
  return [header, ...rows, [run('─'.repeat(width), 'border')]];
}

function distributions({ a, b }: LatencyPair, size: Size): Row[] {
  const [upper, lower] = [a, b].map(({ histogram: bins }) => bins && { low: bins.lowUs, binWidth: bins.binWidthUs, counts: bins.counts, underflow: bins.underflow, overflow: bins.overflow });
  if (upper === undefined || lower === undefined || upper.counts.length === 0 || lower.counts.length === 0) return [[run('no histogram of both', 'dim')]];
  return mirroredHistogram({ upper, lower }, { ...size, height: Math.min(size.height, 21), medians: [a.latency?.p50Us ?? 0, b.latency?.p50Us ?? 0] });
}
