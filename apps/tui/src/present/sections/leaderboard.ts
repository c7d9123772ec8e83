/** The leaderboard of a place, as a table, with what its figures are over. */
import type { GetLeaderboardResponse, LeaderboardEntry, LeaderboardPlace } from '@flashcore/shared/contract';
import { FEWEST_SAMPLES, formatShape } from '@flashcore/shared/kernels';
import { heading, notice, tableOf, type Block, type Column } from '../blocks.ts';
import { formatMicroseconds, formatNumber, formatShortInstant, formatSpeedup } from '../numbers.ts';
import { piece } from '../roles.ts';
import { MODE_WORDS, shortName } from '../words.ts';
import { p50IntervalText } from './timings.ts';

type Ranked = LeaderboardEntry & { readonly rank: number };

const or = (value: number | undefined, format: (value: number) => string): string =>
  value === undefined ? '-' : format(value);

const COLUMNS: readonly Column<Ranked>[] = [
  { title: '#', align: 'right', cell: ({ rank }) => String(rank) },
  {
    title: 'kernel',
    shrinkTo: 20,
    cell: ({ label, champion }) => piece(`${champion ? '★ ' : ''}${label}`, 'title'),
  },
  { title: 'p50', align: 'right', cell: ({ latency }) => or(latency?.p50Us, formatMicroseconds) },
  { title: '95 % of p50', align: 'right', drop: 1, cell: intervalText },
  { title: 'p90', align: 'right', cell: ({ latency }) => or(latency?.p90Us, formatMicroseconds) },
  { title: 'TFLOP/s', align: 'right', cell: ({ tflops }) => or(tflops, formatNumber) },
  { title: 'registers', align: 'right', drop: 3, cell: ({ registers }) => or(registers, String) },
  {
    title: 'vs baseline',
    align: 'right',
    cell: ({ speedupOverBaseline }) => or(speedupOverBaseline, formatSpeedup),
  },
  {
    title: 'vs SDPA',
    align: 'right',
    cell: sdpaSpeedupText,
  },
  { title: 'from', drop: 5, shrinkTo: 12, cell: originText },
  { title: 'who', drop: 4, cell: ({ owner }) => owner ?? '-' },
  { title: 'when', drop: 2, cell: ({ time }) => formatShortInstant(time) },
  { title: 'job', cell: ({ job }) => shortName(job) },
];

/** "5.757 us to 5.763 us"; four samples have a median, and no interval of it. */
function intervalText({ latency }: LeaderboardEntry): string {
  return latency === undefined || latency.samples < FEWEST_SAMPLES.interval ? '-' : p50IntervalText(latency);
}

/** Told where it was noted: nodes of one model can differ in power limit and cooling. */
const HOST_COLUMN: Column<Ranked> = { title: 'on', drop: 3, shrinkTo: 8, cell: ({ hostName }) => hostName || '-' };

/** "1.558 x", "≈1.29 x" where it was not measured in turns. */
export function sdpaSpeedupText({ speedup, sdpaInTurns }: LeaderboardEntry): string {
  return speedup === undefined ? '-' : `${sdpaInTurns ? '' : '≈'}${formatSpeedup(speedup)}`;
}

/** Where the kernel comes from: the search and trial that found it, or the steps below it; of SDPA its software. */
export function originText({ sdpaVersion, labels, lineage }: LeaderboardEntry): string {
  if (sdpaVersion !== '') return sdpaVersion;
  const { search, trial, parents } = labels;
  if (search !== undefined)
    return `search ${search}${trial === undefined ? '' : `, trial ${trial}`}${parents ? ` of ${parents}` : ''}`;
  return lineage.slice(1).join(' < ') || '-';
}

/** "2x8x512x64 hot on NVIDIA H200, flashcore-protocol 3". */
export const placeText = ({ shape, mode, deviceName, protocol }: LeaderboardPlace): string =>
  `${shape ? formatShape(shape) : '?'} ${MODE_WORDS[mode]} on ${deviceName || 'no device'}, ${protocol || 'unknown protocol'}`;

/** The table, what its columns mean, and where else there are results. `limit`: most rows. */
export function leaderboardBlocks(board: GetLeaderboardResponse, { limit }: { limit: number }): Block[] {
  const { entries, place, emptyReason, leftOut, baselineKernel } = board;
  const title = heading('Leaderboard', place ? placeText(place) : '');
  if (entries.length === 0) return [title, notice(emptyReason ?? 'no entry'), ...elsewhere(board)];
  const rows = entries.slice(0, limit).map((entry, index): Ranked => ({ ...entry, rank: index + 1 }));
  const columns = rows.some(({ hostName }) => hostName !== '') ? COLUMNS.toSpliced(-2, 0, HOST_COLUMN) : COLUMNS;
  const cut = entries.length > rows.length ? `${entries.length - rows.length} more: --limit` : '';
  const notes = [
    `vs baseline: over the best ${baselineKernel} of the same device, shape, mode and protocol${hasBaseline(board) ? '' : ', which has none here'}`,
    'vs SDPA: over the fastest backend, measured in turns in the same job; ≈: over its row here',
    rows.some(({ champion }) => champion) ? '★ champion' : '',
    cut,
    leftOut ?? '',
  ].filter((part) => part !== '');
  return [title, tableOf(columns, rows), ...notes.map((note) => notice(note, 'dim')), ...elsewhere(board)];
}

const hasBaseline = ({ entries, baselineKernel }: GetLeaderboardResponse): boolean =>
  entries.some(({ kernelId }) => kernelId === baselineKernel);

const MOST_ELSEWHERE = 5;

/** Other places that have results, so that the filters can name them. */
function elsewhere({ place, places }: GetLeaderboardResponse): Block[] {
  const here = place && placeText(place);
  const others = places.filter((each) => placeText(each) !== here);
  if (others.length === 0) return [];
  const some = others.slice(0, MOST_ELSEWHERE).map((each) => `${placeText(each)} (${each.results})`);
  const more = others.length > some.length ? `; ${others.length - some.length} more: --json` : '';
  return [notice(`results elsewhere: ${some.join('; ')}${more}`, 'dim')];
}
