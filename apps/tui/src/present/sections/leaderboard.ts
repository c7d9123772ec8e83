/** The leaderboard of a place as a table, with an explanation of its speedups. */
import {
  machineText,
  type GetLeaderboardResponse,
  type LeaderboardEntry,
  type LeaderboardPlace,
} from '@flashcore/shared/contract';
import { DEFAULT_PROBLEM, FEWEST_SAMPLES, recordedProblem } from '@flashcore/shared/kernels';
import { heading, notice, tableOf, type Block, type Column } from '../blocks.ts';
import { formatMicroseconds, formatNumber, formatShortInstant, formatSpeedup } from '../numbers.ts';
import { piece } from '../roles.ts';
import { MODE_WORDS, caseText, dtypeWord, shortName } from '../words.ts';
import { p50IntervalText } from './timings.ts';

const or = (value: number | undefined, format: (value: number) => string): string =>
  value === undefined ? '-' : format(value);

/** The figure that ranks an entry: a median, or a geometric mean of medians, microseconds. */
export const figureOf = ({ latency, mean }: LeaderboardEntry): number | undefined => mean?.us ?? latency?.p50Us;

/** A rank such as "2", or "1=" if it is shared. If the runner gives no ranks, the position in the list. */
export function rankText(entry: LeaderboardEntry, all: readonly LeaderboardEntry[]): string {
  if (entry.rank === 0) return String(all.indexOf(entry) + 1);
  return `${entry.rank}${all.filter(({ rank }) => rank === entry.rank).length > 1 ? '=' : ''}`;
}

/** The parts of a mean, such as "2x8x512x64 5.760 us, 1x8x512x64 5.040 us (weight 2)"; empty for a single shape. */
export function casesText({ mean }: LeaderboardEntry): string {
  return (mean?.cases ?? [])
    .map(
      ({ shape, weight, p50Us }) =>
        `${shape ? caseText(shape) : '?'} ${formatMicroseconds(p50Us)}${weight === 1 ? '' : ` (weight ${weight})`}`,
    )
    .join(', ');
}

const LATENCY_COLUMNS: readonly Column<LeaderboardEntry>[] = [
  { title: 'p50', align: 'right', cell: ({ latency }) => or(latency?.p50Us, formatMicroseconds) },
  { title: '95 % interval', align: 'right', drop: 1, cell: intervalText },
  { title: 'p90', align: 'right', cell: ({ latency }) => or(latency?.p90Us, formatMicroseconds) },
  { title: 'TFLOP/s', align: 'right', cell: ({ tflops }) => or(tflops, formatNumber) },
];

const MEAN_COLUMNS: readonly Column<LeaderboardEntry>[] = [
  { title: 'mean', align: 'right', cell: ({ mean }) => or(mean?.us, formatMicroseconds) },
  { title: '95 % of mean', align: 'right', drop: 1, cell: intervalText },
  { title: 'of', drop: 6, shrinkTo: 12, cell: casesText },
];

const columnsOf = (board: GetLeaderboardResponse): Column<LeaderboardEntry>[] => [
  { title: '#', align: 'right', cell: (entry) => rankText(entry, board.entries) },
  {
    title: 'kernel',
    shrinkTo: 20,
    cell: ({ label, champion }) => piece(`${champion ? '★ ' : ''}${label}`, 'title'),
  },
  ...(board.place?.caseSet ? MEAN_COLUMNS : LATENCY_COLUMNS),
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

/** An interval such as "5.757 us to 5.763 us"; empty if there are too few samples for one. */
export function intervalText({ latency, mean }: LeaderboardEntry): string {
  if (mean) return p50IntervalText({ p50Us: mean.us, p50LowUs: mean.lowUs, p50HighUs: mean.highUs });
  return latency === undefined || latency.samples < FEWEST_SAMPLES.interval ? '-' : p50IntervalText(latency);
}

/** Shown if hosts were recorded, because nodes with the same GPU model can differ in power limit and cooling. */
const HOST_COLUMN: Column<LeaderboardEntry> = {
  title: 'on',
  drop: 3,
  shrinkTo: 8,
  cell: machineText,
};

/** A speedup such as "1.558 x", or "≈1.29 x" if it was not measured in turns. */
export function sdpaSpeedupText({ speedup, sdpaInTurns }: LeaderboardEntry): string {
  return speedup === undefined ? '-' : `${sdpaInTurns ? '' : '≈'}${formatSpeedup(speedup)}`;
}

/**
 * Where the kernel comes from: the search and trial that found it, or the steps of the ladder below it. For SDPA, its
 * software.
 */
export function originText({ sdpaVersion, labels, lineage }: LeaderboardEntry): string {
  if (sdpaVersion !== '') return sdpaVersion;
  const { search, trial, parents } = labels;
  if (search !== undefined)
    return `search ${search}${trial === undefined ? '' : `, trial ${trial}`}${parents ? ` of ${parents}` : ''}`;
  return lineage.slice(1).join(' < ') || '-';
}

/** A shape such as "2x8x512x64", or a set such as "mean over success". */
export const shapeOrSet = ({ shape, caseSet }: Pick<LeaderboardPlace, 'shape' | 'caseSet'>): string => {
  if (caseSet !== '') return `mean over ${caseSet}`;
  return shape ? caseText(shape) : '?';
};

/** A place such as "2x8x512x64 hot on NVIDIA H200, flashcore-protocol 3" or "rmsnorm N=4096,rows=4096 hot on …". */
export const placeText = ({ problem, dtype, mode, deviceName, protocol, ...where }: LeaderboardPlace): string =>
  `${recordedProblem(problem) === DEFAULT_PROBLEM ? '' : `${problem} `}${shapeOrSet(where)} ${dtypeWord(dtype)}${MODE_WORDS[mode]} on ${deviceName || 'no device'}, ${protocol || 'unknown protocol'}`;

const MEAN_NOTE = 'mean: weighted geometric mean of the medians that one ranked run measured of one build';
const TIE_NOTE = '=: a tie, the 95 % intervals overlap';

/** The table, an explanation of its columns, and other places with results. `limit` is the maximum number of rows. */
export function leaderboardBlocks(board: GetLeaderboardResponse, { limit }: { limit: number }): Block[] {
  const { entries, place, emptyReason, leftOut, baselineKernel } = board;
  const title = heading('Leaderboard', place ? placeText(place) : '');
  if (entries.length === 0) return [title, notice(emptyReason ?? 'no entry'), ...elsewhere(board)];
  const rows = entries.slice(0, limit);
  const all = columnsOf(board);
  const columns = rows.some(({ hostName }) => hostName !== '') ? all.toSpliced(-2, 0, HOST_COLUMN) : all;
  const cut = entries.length > rows.length ? `${entries.length - rows.length} more: --limit` : '';
  const notes = [
    place?.caseSet ? MEAN_NOTE : '',
    rows.some((entry) => rankText(entry, entries).endsWith('=')) ? TIE_NOTE : '',
    `vs baseline: over the runner's own ${baselineKernel}, on the same device, shape, dtype, mode and protocol${hasBaseline(board) ? '' : ', which has none here'}`,
    'vs SDPA: over the fastest backend, measured in turns in the same job; ≈: over its row here',
    rows.some(({ champion }) => champion) ? '★ champion' : '',
    cut,
    leftOut ?? '',
  ].filter((part) => part !== '');
  return [title, tableOf(columns, rows), ...notes.map((note) => notice(note, 'dim')), ...elsewhere(board)];
}

const hasBaseline = ({ entries }: GetLeaderboardResponse): boolean =>
  entries.some(({ speedupOverBaseline }) => speedupOverBaseline !== undefined);

const MOST_ELSEWHERE = 5;

/** Other places with results, so that users know which filters to use. */
function elsewhere({ place, places }: GetLeaderboardResponse): Block[] {
  const here = place && placeText(place);
  const others = places.filter((each) => placeText(each) !== here);
  if (others.length === 0) return [];
  const some = others.slice(0, MOST_ELSEWHERE).map((each) => `${placeText(each)} (${each.results})`);
  const more = others.length > some.length ? `; ${others.length - some.length} more: --json` : '';
  return [notice(`results elsewhere: ${some.join('; ')}${more}`, 'dim')];
}
