/** The leaderboard of a place, sorted and filtered, with details of the row under the cursor below it. */
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { machineText, type LeaderboardEntry, type LeaderboardPlace } from '@flashcore/shared/contract';
import { fact, facts } from '../../present/blocks.ts';
import { blockRows } from '../../present/cells/cells-painter.ts';
import { peakWord } from '../../present/sections/timings.ts';
import { BLANK_ROW, run, wrapRows, type Row } from '../../present/cells/row.ts';
import type { Column } from '../../present/cells/table.ts';
import {
  formatCount,
  formatAge,
  formatInstant,
  formatMicroseconds,
  formatNumber,
  formatPercent,
  formatSpeedup,
} from '../../present/numbers.ts';
import {
  casesText,
  figureOf,
  intervalText,
  originText,
  rankText,
  sdpaSpeedupText,
  shapeOrSet,
} from '../../present/sections/leaderboard.ts';
import { MODE_WORDS, dtypeWord, shortName } from '../../present/words.ts';
import { inJobs } from '../../state/chosen.ts';
import type { AppState } from '../../state/app-state.ts';
import { leaderboardOf } from '../../state/selectors.ts';
import { halfWidthText } from '../dashboard/latency-live.ts';
import { list } from '../pane/list.ts';
import { pinnedMark, sortRemark } from './history.ts';
import { noAnswer } from '../pane/nothing.ts';
import { positionRemark, type PaneContent, type Size } from '../pane/view.ts';

type Ranked = LeaderboardEntry & { readonly rankText: string; readonly behind: number };

const or = (value: number | undefined, format: (value: number) => string): string =>
  value === undefined ? '-' : format(value);

const leaderboardColumns = (state: AppState): Column<Ranked>[] => [
  { title: '#', align: 'right', cell: ({ rankText: text }) => run(text, /^1=?$/.test(text) ? 'good' : 'dim') },
  {
    title: 'kernel and variant',
    cell: ({ label, job, champion, sdpaVersion }) =>
      run(`${pinnedMark(state, job)}${champion ? '★ ' : ''}${label}`, sdpaVersion === '' ? 'title' : 'dim'),
    shrinkTo: 24,
  },
  {
    title: state.leaderboard?.place?.caseSet ? 'mean' : 'p50',
    align: 'right',
    cell: (entry) => or(figureOf(entry), formatMicroseconds),
  },
  { title: '95 %', align: 'right', drop: 1, cell: ({ latency }) => (latency && halfWidthText(latency)) ?? '-' },
  { title: 'p90', align: 'right', drop: 4, cell: ({ latency }) => or(latency?.p90Us, formatMicroseconds) },
  { title: 'TFLOP/s', align: 'right', drop: 3, cell: ({ tflops }) => or(tflops, formatNumber) },
  {
    title: 'to the first',
    align: 'right',
    drop: 6,
    cell: ({ behind }) => (behind === 0 ? run('first', 'good') : `+${(behind * 100).toFixed(1)} %`),
  },
  {
    title: 'vs baseline',
    align: 'right',
    drop: 2,
    cell: ({ speedupOverBaseline }) => or(speedupOverBaseline, formatSpeedup),
  },
  {
    title: 'vs SDPA',
    align: 'right',
    cell: (entry) =>
      entry.speedup === undefined ? run('-', 'dim') : run(sdpaSpeedupText(entry), entry.speedup > 1 ? 'good' : 'bad'),
  },
  { title: 'regs', align: 'right', drop: 5, cell: ({ registers }) => or(registers, String) },
  { title: 'who', drop: 8, cell: ({ owner }) => owner ?? '-' },
  {
    title: 'when',
    align: 'right',
    drop: 7,
    cell: ({ time }) => (time === undefined ? '-' : formatAge((state.now - timestampMs(time)) / 1000)),
  },
];

const DETAIL_FROM = 14;

/** Details that do not fit into the table. */
function detailRows(entry: LeaderboardEntry, baseline: string, width: number): Row[] {
  const {
    latency,
    tflops,
    rooflinePercent,
    rooflineUnits,
    registers,
    speedupOverBaseline,
    owner,
    time,
    job,
    sourceDigest,
  } = entry;
  return [
    [run('─'.repeat(width), 'border')],
    ...wrapRows(entry.label, width, { role: 'title' }),
    ...blockRows(
      [
        facts(
          fact(entry.mean ? 'mean' : 'p50', or(figureOf(entry), formatMicroseconds)),
          fact('95 %', intervalText(entry)),
          fact('of', casesText(entry)),
          fact('p90', or(latency?.p90Us, formatMicroseconds)),
          fact('n', latency === undefined ? '-' : formatCount(latency.samples)),
          fact('TFLOP/s', or(tflops, formatNumber)),
          fact(
            `of the ${peakWord(rooflineUnits)} roofline`,
            rooflinePercent === undefined ? '' : formatPercent(rooflinePercent),
          ),
          fact('registers', or(registers, String)),
          fact(`over ${baseline}`, or(speedupOverBaseline, formatSpeedup)),
          fact('over SDPA', entry.speedup === undefined ? '-' : sdpaSpeedupText(entry)),
          fact('from', originText(entry)),
          fact('by', owner ?? '-'),
          fact('measured on', entry.schedulerJob === undefined ? '' : machineText(entry)),
          fact('on', formatInstant(time)),
          fact('job', shortName(job)),
          fact('source', sourceDigest.slice(0, 10)),
        ),
      ],
      width,
    ),
  ];
}

/** Text such as "2x8x512x64 hot, NVIDIA H200". */
const placeText = ({ dtype, mode, deviceName, ...where }: LeaderboardPlace): string =>
  [`${shapeOrSet(where)} ${dtypeWord(dtype)}${MODE_WORDS[mode]}`.trim(), deviceName].filter(Boolean).join(', ');

export function leaderboardPane(state: AppState, size: Size): PaneContent {
  const place = state.leaderboard?.place;
  const title = place ? `6 Leaderboard  ${placeText(place)}` : '6 Leaderboard';
  if (state.leaderboard === undefined)
    return {
      title,
      body: wrapRows(state.connection === 'connected' ? 'Reading the leaderboard.' : noAnswer(state), size.width, {
        role: 'dim',
      }),
    };
  if (state.leaderboard.entries.length === 0)
    return {
      title,
      body: wrapRows(`${state.leaderboard.emptyReason ?? 'No entry'}. t shows the jobs.`, size.width, { role: 'dim' }),
    };
  const best = Math.min(...state.leaderboard.entries.map((entry) => figureOf(entry) ?? Infinity));
  const entries = leaderboardOf(state).map((entry): Ranked => ({
    ...entry,
    rankText: rankText(entry, state.leaderboard?.entries ?? []),
    behind: (figureOf(entry) ?? NaN) / best - 1,
  }));
  if (entries.length === 0)
    return {
      title,
      body: wrapRows(`No entry has "${state.ui.filters.history}". / changes the filter, Esc shows all.`, size.width, {
        role: 'warn',
      }),
    };
  const selected = state.ui.selected.jobs;
  const { leftOut } = state.leaderboard;
  const remarks = leftOut === undefined ? [] : wrapRows(`${leftOut}.`, size.width, { role: 'dim' });
  const chosen = entries[Math.min(selected, entries.length - 1)];
  const detail =
    chosen === undefined || size.height < DETAIL_FROM
      ? []
      : detailRows(chosen, state.leaderboard.baselineKernel, size.width);
  const rows = list(leaderboardColumns(state), entries, {
    width: size.width,
    height: Math.max(0, size.height - remarks.length - detail.length),
    selected,
    focused: inJobs(state),
  });
  const blank = Array.from({ length: size.height - rows.length - remarks.length - detail.length }, () => BLANK_ROW);
  return {
    title,
    remark: `${positionRemark(selected, entries.length, 'row')}${sortRemark(state)}${state.leaderboard.places.length > 1 ? ', P: next place' : ''}`,
    body: [...rows, ...blank, ...detail, ...remarks],
  };
}
