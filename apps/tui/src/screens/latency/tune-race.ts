/** The live race of a search over variants, for view 3 and for the dashboard's latency pane. */
import { Verdict, type TunedVariant } from '@flashcore/shared/contract';
import { counted, formatBytes, formatMicroseconds, formatRatio } from '../../present/numbers.ts';
import { p50IntervalText } from '../../present/sections/timings.ts';
import { fitRow, rowWidth, run, wrapRows, type Row } from '../../present/cells/row.ts';
import { table as layTable, type Column } from '../../present/cells/table.ts';
import { VERDICT_MARKS, reasonText } from '../../present/words.ts';
import type { JobView } from '../../state/job-view.ts';
import { raceOf, type TuneRace } from '../../state/tuned-variants.ts';
import { list } from '../pane/list.ts';
import { positionRemark, type PaneContent, type Size } from '../pane/view.ts';

interface RaceLook extends Size {
  readonly selected: number;
  readonly focused: boolean;
}

/**
 * The table, the Pareto front and, where the table has no room for them, the reasons why variants were dropped.
 * Undefined if the job is not a search.
 */
export function racePane(job: JobView | undefined, title: string, look: RaceLook): PaneContent | undefined {
  const race = job && raceOf(job);
  if (!race) return undefined;
  const { rows } = race;
  const selected = Math.min(look.selected, rows.length - 1);
  const columns = columnsOf(race, job.kernelId);
  const whole = columns.filter(({ title }) => title !== DROPPED);
  const isCut = CURSOR_CELLS + rowWidth(layTable(columns, rows, Infinity).header) > look.width;
  const drops = isCut ? rows.filter(({ dropped }) => dropped !== undefined) : [];
  // All reasons where the rows of the table leave room, or else that of the selected variant.
  const feet = [drops, drops.filter((row) => row === rows[selected])].map((told) => footRows(race, told, look.width));
  const foot = (feet.find(({ length }) => length + rows.length + 1 <= look.height) ?? feet.at(-1) ?? []).slice(
    0,
    Math.max(0, look.height - MIN_TABLE),
  );
  const table = list(isCut ? whole : columns, rows, { ...look, height: look.height - foot.length, selected });
  return {
    title: `${title}  ${standing(race)}`,
    remark: positionRemark(selected, rows.length, 'variant'),
    body: [...table, ...foot].slice(0, look.height),
  };
}

const MIN_TABLE = 4;
/** Cells of the list's cursor. */
const CURSOR_CELLS = 2;
const DROPPED = 'dropped';
/** Room for two parameters, so that rows can be told apart. */
const LABEL_CELLS = 28;

/** The leader of the race, and its size. Where there is little room, the leader comes first, because 3 has the size. */
export function raceTexts(race: TuneRace): { readonly leader: string; readonly size: string } {
  const [leader] = race.rows.filter(({ verified }) => verified === Verdict.PASS);
  return { leader: leader === undefined ? '' : leaderText(leader, race), size: standing(race) };
}

/** Resources rank variants that were not timed, which does not make the first one the fastest. */
function leaderText({ label, p50Us, registers }: TunedVariant, { result }: TuneRace): string {
  if (p50Us !== undefined) return `${label} leads, ${formatMicroseconds(p50Us)}`;
  return result === undefined ? '' : `fewest registers: ${label}, ${registers}`;
}

/** Text such as "search over 12 variants, 3 dropped". */
function standing({ rows, result }: TuneRace): string {
  const dropped = rows.filter((row) => row.dropped !== undefined).length;
  const complete = isTimed(rows) ? 'decided' : 'not timed on a GPU';
  const ended = result?.complete ? complete : 'stopped before the end';
  return `search over ${counted(rows.length, 'variant')}, ${dropped} dropped  ${result === undefined ? 'LIVE' : ended}`;
}

const isTimed = (rows: readonly TunedVariant[]): boolean => rows.some(({ p50Us }) => p50Us !== undefined);

function columnsOf(race: TuneRace, kernelId: string): Column<TunedVariant>[] {
  const { pareto, rows, result } = race;
  // A search that ended without times has none to show.
  return [
    ...buildColumns(pareto),
    ...(result !== undefined && !isTimed(rows) ? [] : timeColumns()),
    droppedColumn(kernelId),
  ];
}

const droppedColumn = (kernelId: string): Column<TunedVariant> => ({
  title: DROPPED,
  drop: 5,
  shrinkTo: 12,
  cell: (variant) => run(reasonWithoutName(variant, kernelId), 'dim'),
});

/** Why the variant was dropped, without the kernel's and the variant's name, which would fill a narrow column. */
function reasonWithoutName({ dropped, label }: TunedVariant, kernelId: string): string {
  const reason = reasonText(dropped ?? '');
  const name = [`${kernelId} ${label}`, label, kernelId].find(
    (each) => reason.startsWith(`${each} `) || reason.startsWith(`${each}:`),
  );
  return name === undefined ? reason : reason.slice(name.length).replace(/^:?\s+/, '');
}

function buildColumns(pareto: TuneRace['pareto']): Column<TunedVariant>[] {
  const built = (row: TunedVariant, text: string): string => (row.buildId === undefined ? '-' : text);
  return [
    {
      title: '#',
      align: 'right',
      cell: ({ rank, label }) =>
        run(`${rank > 0 ? rank : '-'}${pareto.has(label) ? '*' : ' '}`, rank === 1 ? 'good' : 'dim'),
    },
    {
      title: 'variant',
      cell: ({ label, dropped }) => run(label, dropped === undefined ? 'title' : 'dim'),
      shrinkTo: LABEL_CELLS,
    },
    { title: 'regs', align: 'right', cell: (row) => built(row, row.registers > 0 ? String(row.registers) : '-') },
    { title: 'SMEM', align: 'right', cell: (row) => built(row, formatBytes(row.smemBytes)) },
    {
      title: 'CTAs/SM',
      align: 'right',
      drop: 2,
      cell: (row) => built(row, row.registers > 0 ? String(row.ctasPerSm) : '-'),
    },
    { title: 'correct', cell: verifiedPiece },
  ];
}

function timeColumns(): Column<TunedVariant>[] {
  return [
    {
      title: 'p50',
      align: 'right',
      cell: ({ p50Us }) => (p50Us === undefined ? run('-', 'dim') : formatMicroseconds(p50Us)),
    },
    {
      title: '95 %',
      align: 'right',
      drop: 3,
      cell: ({ p50Us, p50LowUs, p50HighUs }) =>
        p50Us === undefined || p50LowUs === undefined || p50HighUs === undefined
          ? run('-', 'dim')
          : p50IntervalText({ p50Us, p50LowUs, p50HighUs }),
    },
    {
      title: 'x leader',
      align: 'right',
      drop: 4,
      cell: ({ ratio }) => (ratio === undefined ? run('-', 'dim') : formatRatio(ratio.ratio)),
    },
  ];
}

function verifiedPiece({ verified, buildId, dropped }: TunedVariant) {
  const open = verified === Verdict.NOT_MEASURED || verified === Verdict.UNSPECIFIED;
  if (open && dropped === undefined) return run(buildId === undefined ? '● building' : '○ waiting', 'accent');
  const { mark, role } = VERDICT_MARKS[verified];
  return run(mark, role);
}

function footRows({ rows, pareto, result }: TuneRace, drops: readonly TunedVariant[], width: number): Row[] {
  const timed = isTimed(rows);
  const front = rows.filter(({ label }) => pareto.has(label)).map(({ label }) => label);
  const figures = result?.paretoOf || (timed ? 'median latency and registers' : 'shared memory and registers');
  return [
    fitRow([run('─'.repeat(width), 'border')], width),
    ...wrapRows(`* Pareto front of ${figures}: ${front.join('; ') || 'not known yet'}`, width),
    ...(result ? wrapRows(`ranked by ${result.rankedBy}`, width, { role: 'dim' }) : []),
    ...drops.flatMap(({ label, dropped = '' }) =>
      wrapRows(`${label} was dropped: ${reasonText(dropped)}`, width, { hang: 2 }),
    ),
  ];
}
