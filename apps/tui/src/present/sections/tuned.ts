/** The result of a search over variants: the table with the best first, the winner, and the Pareto front. */
import { Verdict, type TuneResult, type TunedVariant } from '@flashcore/shared/contract';
import { heading, notice, tableOf, type Block, type Column } from '../blocks.ts';
import { counted, formatBytes, formatMicroseconds, formatRatio } from '../numbers.ts';
import { reasonText } from '../words.ts';
import { piece } from '../roles.ts';

const VERDICTS: Partial<Record<Verdict, string>> = {
  [Verdict.PASS]: 'yes',
  [Verdict.FAIL]: 'no',
  [Verdict.NOT_MEASURED]: 'not known',
};

export function tuneBlocks(tune: TuneResult): Block[] {
  const { variants, combinations, drawn, rankedBy, complete, pareto, paretoOf } = tune;
  const looked = drawn
    ? `${variants.length} of ${combinations} combinations, drawn at random`
    : counted(variants.length, 'variant');
  return [
    heading('Search over variants', looked),
    notice(
      `ranked by ${rankedBy}${complete ? '' : '; not decided: stopped before the end'}`,
      complete ? 'text' : 'warn',
    ),
    tableOf(columnsOf(tune), variants, ({ dropped }) =>
      dropped === undefined ? undefined : piece(reasonText(dropped), 'dim'),
    ),
    bestNotice(tune),
    notice(`* Pareto front of ${paretoOf}: ${pareto.join('; ') || 'nothing was measured'}`),
  ];
}

/** The notice for a search without a winner: no variant is correct, or the race was stopped before it was decided. */
function bestNotice({ winner, variants, simulated }: TuneResult): Block {
  if (winner !== undefined)
    return simulated ? notice(`First by resources, not timed on a GPU: ${winner}`) : notice(`Best: ${winner}`, 'good');
  const open = variants.some(({ verified, dropped }) => verified !== Verdict.FAIL && dropped === undefined);
  return open ? notice('Best: not decided', 'warn') : notice('Best: none is right', 'bad');
}

function columnsOf({ pareto, variants, simulated }: TuneResult): Column<TunedVariant>[] {
  const built = (row: TunedVariant, text: string): string => (row.registers > 0 ? text : '?');
  return [
    { title: '#', cell: ({ rank, label }) => `${rank > 0 ? rank : '-'}${pareto.includes(label) ? '*' : ''}` },
    { title: 'variant', cell: ({ label }) => piece(label, 'title') },
    { title: 'registers', align: 'right', cell: (row) => built(row, String(row.registers)) },
    { title: 'SMEM', align: 'right', cell: (row) => built(row, formatBytes(row.smemBytes)) },
    { title: 'CTAs/SM', align: 'right', drop: 1, cell: (row) => built(row, String(row.ctasPerSm)) },
    // The emulator's times decide nothing, so a search on it has none.
    ...(simulated && variants.every(({ p50Us }) => p50Us === undefined) ? [] : TIME_COLUMNS),
    { title: 'correct', cell: ({ verified }) => VERDICTS[verified] ?? '?' },
  ];
}

const TIME_COLUMNS: readonly Column<TunedVariant>[] = [
  {
    title: 'p50',
    align: 'right',
    cell: ({ p50Us }) => (p50Us === undefined ? 'not timed' : formatMicroseconds(p50Us)),
  },
  {
    title: '95 % interval',
    align: 'right',
    drop: 2,
    cell: ({ p50Us, p50LowUs, p50HighUs }) =>
      p50LowUs === undefined || p50HighUs === undefined
        ? '-'
        : `${formatMicroseconds(p50LowUs, p50Us)} to ${formatMicroseconds(p50HighUs, p50Us)}`,
  },
  { title: 'x leader', align: 'right', drop: 3, cell: ({ ratio }) => (ratio ? formatRatio(ratio.ratio) : '-') },
];
