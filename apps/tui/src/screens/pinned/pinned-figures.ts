/** Every figure that both jobs have, side by side: latency, resources, errors and counters. */
import { Verdict, type Metric } from '@flashcore/shared/contract';
import { EMULATOR_TIMES, entryOf } from '@flashcore/shared/text';
import { formatBytes, formatError, formatMicroseconds, formatNumber } from '../../present/numbers.ts';
import { run, textRow, type Row, type Run } from '../../present/cells/row.ts';
import { table, type Column } from '../../present/cells/table.ts';
import { mostOf, type PinnedComparison } from '../../state/pinned.ts';
import type { VariantView } from '../../state/job-view.ts';
import { MODE_WORDS, shapeShort } from '../../present/words.ts';

interface Figure {
  readonly name: string;
  readonly pinned: number | undefined;
  readonly shown: number | undefined;
  readonly format: (value: number) => string;
  /** The unit of a counter; the format of other figures includes the unit. */
  readonly unit?: string;
  /** The better direction; absent if there is none. */
  readonly better?: 'less' | 'more' | undefined;
}

const COLUMNS: Column<Figure>[] = [
  { title: 'figure', cell: ({ name }) => name, shrinkTo: 27 },
  { title: 'pinned', align: 'right', cell: ({ pinned, format }) => valueRun(pinned, format) },
  { title: 'shown', align: 'right', cell: ({ shown, format }) => valueRun(shown, format) },
  { title: 'change', align: 'right', cell: changeRun },
];
const COUNTER_COLUMNS: Column<Figure>[] = [
  ...COLUMNS,
  { title: 'unit', drop: 1, cell: ({ unit = '' }) => run(unit, 'dim') },
];

const valueRun = (value: number | undefined, format: Figure['format']): Run =>
  value === undefined ? run('not measured', 'dim') : run(format(value));

function changeRun({ pinned, shown, better }: Figure): Run {
  if (pinned === undefined || shown === undefined) return run('');
  if (pinned === shown) return run('same', 'dim');
  const improved = shown < pinned === (better === 'less');
  const text =
    pinned === 0
      ? `${shown > 0 ? '+' : ''}${formatNumber(shown)}`
      : `${shown > pinned ? '+' : ''}${formatNumber(Number((((shown - pinned) / Math.abs(pinned)) * 100).toPrecision(3)))} %`;
  if (better === undefined) return run(text);
  return run(text, improved ? 'good' : 'bad');
}

const LATENCY = 'Latency, p50';

const missingText = (title: string, { pairs }: PinnedComparison): string =>
  title === LATENCY && pairs.length > 0 ? `not compared: ${EMULATOR_TIMES}` : 'not measured in both';

export function figureRows(comparison: PinnedComparison, width: number): Row[] {
  const groups: [string, Figure[]][] = [
    [LATENCY, latencyFigures(comparison)],
    ['Build', buildFigures(comparison)],
    ['Correctness', errorFigures(comparison)],
    ['Hardware counters', counterFigures(comparison)],
  ];
  return groups.flatMap(([title, figures]) => {
    if (figures.length === 0) return [textRow(title, 'title'), textRow(`  ${missingText(title, comparison)}`, 'dim')];
    const columns = figures.some(({ unit }) => unit !== undefined) ? COUNTER_COLUMNS : COLUMNS;
    const { header, rows } = table(columns, figures, width - 2);
    return [[run(title, 'title')], [run('  '), ...header], ...rows.map((row): Row => [run('  '), ...row])];
  });
}

/** Leaves out emulator times, which must not be compared. */
const latencyFigures = ({ pairs }: PinnedComparison): Figure[] =>
  pairs
    .filter(({ pinned, shown }) => !pinned.simulated && !shown.simulated)
    .map(({ pinned, shown }) => ({
      name: `${shapeShort(pinned.shape)} ${MODE_WORDS[pinned.mode]}`,
      pinned: pinned.latency?.p50Us,
      shown: shown.latency?.p50Us,
      format: (value) => formatMicroseconds(value, pinned.latency?.p50Us),
      better: 'less',
    }));

function buildFigures({ pinned: { variant: pinned }, shown: { variant: shown } }: PinnedComparison): Figure[] {
  const figure = (
    name: string,
    need: Parameters<typeof mostOf>[1],
    format: Figure['format'],
    better: Figure['better'],
  ): Figure => ({ name, pinned: mostOf(pinned, need), shown: mostOf(shown, need), format, better });
  return [
    figure('registers/thread', ({ registersPerThread }) => registersPerThread, formatNumber, 'less'),
    figure(
      'SMEM/CTA',
      ({ staticSmemBytes, dynamicSmemBytes }) => staticSmemBytes + dynamicSmemBytes,
      formatBytes,
      'less',
    ),
    figure('spills', ({ spillStoreBytes, spillLoadBytes }) => spillStoreBytes + spillLoadBytes, formatBytes, 'less'),
    figure('stack', ({ stackBytes }) => stackBytes, formatBytes, 'less'),
    figure('threads/CTA', ({ threadsPerCta }) => threadsPerCta, formatNumber, undefined),
    figure('CTAs/SM', ({ ctasPerSm }) => ctasPerSm, formatNumber, 'more'),
    figure(
      'occupancy',
      ({ occupancyPercent }) => occupancyPercent,
      (value) => `${formatNumber(Math.round(value * 10) / 10)} %`,
      'more',
    ),
  ];
}

function errorFigures({ pinned: { variant: pinned }, shown: { variant: shown } }: PinnedComparison): Figure[] {
  const most = ({ cases }: VariantView): number | undefined =>
    cases.length === 0 ? undefined : Math.max(...cases.map(({ maxAbsError }) => maxAbsError));
  const sum = ({ cases }: VariantView): number | undefined =>
    cases.length === 0 ? undefined : cases.reduce((total, { mismatches }) => total + Number(mismatches), 0);
  return [
    { name: 'largest error', pinned: most(pinned), shown: most(shown), format: formatError, better: 'less' },
    { name: 'mismatches', pinned: sum(pinned), shown: sum(shown), format: formatNumber, better: 'less' },
  ];
}

// For counters that are not listed, neither direction is better.
const BETTER: Record<string, Figure['better']> = {
  gpu_time_us: 'less',
  tensor_pipe_percent: 'more',
  l2_hit_percent: 'more',
  smem_bank_conflict_percent: 'less',
  smem_wavefronts_per_request: 'less',
  achieved_occupancy_percent: 'more',
  local_load_instructions: 'less',
  local_store_instructions: 'less',
};

function counterFigures({ pinned: { variant: pinned }, shown: { variant: shown } }: PinnedComparison): Figure[] {
  const metrics = ({ profile }: VariantView): readonly Metric[] =>
    profile?.verdict === Verdict.PASS ? profile.metrics : [];
  const others = metrics(shown);
  return metrics(pinned).flatMap(({ name, unit, value }) => {
    const other = others.find((metric) => metric.name === name);
    return other === undefined
      ? []
      : [
          {
            name,
            pinned: value,
            shown: other.value,
            format: (shown: number) => formatNumber(Number(shown.toPrecision(4))),
            unit: unit.replace('instructions', 'instr.'),
            better: entryOf(BETTER, name),
          },
        ];
  });
}
