import { Verdict, type TuneResult, type TunedVariant } from '@flashcore/shared/contract';

/** What is known of a variant so far. */
export function variantLine(row: TunedVariant): string {
  const { label, registers, smemBytes, verified, dropped, reused } = row;
  if (dropped !== undefined) return `${label}: dropped: ${dropped}`;
  const resources = `${registers} registers, ${smemBytes} B shared`;
  if (verified === Verdict.NOT_MEASURED) return `${label}: ${registers > 0 ? resources : 'built'}`;
  const known = reused ? ' (known from before)' : '';
  return `${label}: right, ${row.p50Us === undefined ? resources : `${row.p50Us.toPrecision(4)} us`}${known}`;
}

const HEADS = ['', 'variant', 'registers', 'shared B', 'CTAs/SM', 'p50 us', '95 % interval', 'x leader', 'right', ''];

/** The table, best first, and the Pareto front, whose members have a star. */
export function tuneLines(tune: TuneResult): string[] {
  const rows = [HEADS, ...tune.variants.map((row) => cellsOf(row, tune))];
  const widths = HEADS.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const looked = tune.drawn
    ? `${tune.variants.length} of ${tune.combinations} combinations, drawn at random`
    : `${tune.variants.length} variants`;
  return [
    `${looked}; ranked by ${tune.rankedBy}${tune.complete ? '' : '; not decided: stopped before the end'}`,
    '',
    ...rows.map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join('  ')
        .trimEnd(),
    ),
    '',
    `Best: ${tune.winner ?? 'none is right'}`,
    `Pareto front of ${tune.paretoOf}: ${tune.pareto.join('; ') || 'nothing was measured'}`,
  ];
}

function cellsOf(row: TunedVariant, { pareto }: TuneResult): string[] {
  const { p50Us, p50LowUs, p50HighUs } = row;
  const known = row.registers > 0;
  return [
    `${row.rank > 0 ? row.rank : '-'}${pareto.includes(row.label) ? '*' : ''}`,
    row.label,
    known ? String(row.registers) : '?',
    known ? String(row.smemBytes) : '?',
    known ? String(row.ctasPerSm) : '?',
    p50Us === undefined ? 'not timed' : p50Us.toPrecision(4),
    p50LowUs === undefined || p50HighUs === undefined
      ? ''
      : `${p50LowUs.toPrecision(4)} to ${p50HighUs.toPrecision(4)}`,
    row.ratio ? row.ratio.ratio.toFixed(3) : '',
    VERDICTS[row.verified] ?? '?',
    row.dropped ?? '',
  ];
}

const VERDICTS: Partial<Record<Verdict, string>> = {
  [Verdict.PASS]: 'yes',
  [Verdict.FAIL]: 'no',
  [Verdict.NOT_MEASURED]: 'not known',
};
