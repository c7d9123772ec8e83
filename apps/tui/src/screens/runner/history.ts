/** Ended jobs with their results, sorted and filtered. The keys b and c compare any two rows. */
import { marked } from '../../present/roles.ts';
import { JobKind, Outcome, isParity, parityShort, type ExperimentSummary, type Job } from '@flashcore/shared/contract';
import {
  commonShape,
  gatesRole,
  gatesText,
  largestErrorText,
  medianOf,
  shownCase,
  shownShape,
} from '../../present/sections/lists.ts';
import { formatMicroseconds, formatWhen } from '../../present/numbers.ts';
import { caseColumns, sharedText } from '../../present/sections/case-columns.ts';
import { firstRows, run, textRow, wrapRows, BLANK_ROW, type Row, type Run } from '../../present/cells/row.ts';
import { noticeRows } from '../../present/cells/cells-painter.ts';
import type { Column } from '../../present/cells/table.ts';
import type { AppState } from '../../state/app-state.ts';
import { championLegend, championMark, inJobs, sourceLegend, sourceMark } from '../../state/chosen.ts';
import { noteText, withNotesNow } from '../../state/decision.ts';
import { listTitle } from '../../state/listed-kernel.ts';
import { isUnseen, unseenLegend } from '../../state/since-left.ts';
import { endedRuns, hiddenText, historyOf } from '../../state/selectors.ts';
import { KIND_WORDS, dtypeWord, jobMark, shortName, stateText } from '../../present/words.ts';
import { list } from '../pane/list.ts';
import { emptyListRows } from '../pane/nothing.ts';
import { positionRemark, type PaneContent, type Size } from '../pane/view.ts';
import { experimentRows, summaryBeside, tookText } from './experiment-rows.ts';

/** The legend of the mark of a pinned job; empty if the list does not have the job. */
export const pinnedLegend = ({ ui }: AppState, jobs: readonly (string | undefined)[]): string =>
  ui.pinned !== undefined && jobs.includes(ui.pinned) ? ', P pinned' : '';

export const pinnedMark = ({ ui }: AppState, job: string | undefined): string =>
  job !== undefined && job === ui.pinned ? 'P' : ' ';

/** The runner keeps figures of experiments only; "-" would say that another job measured nothing. */
const hasFigures = ({ job }: ExperimentSummary): boolean =>
  job === undefined || job.kind === JobKind.EXPERIMENT || job.kind === JobKind.UNSPECIFIED;

function casesRun(experiment: ExperimentSummary): Run {
  if (!hasFigures(experiment)) return run('');
  if (!isParity(experiment)) return run(parityShort(experiment), 'bad');
  return run(parityShort(experiment), experiment.cases === 0 ? 'dim' : undefined);
}

function timeRun(experiment: ExperimentSummary): Run {
  if (!hasFigures(experiment)) return run('');
  const p50Us = medianOf(experiment);
  if (p50Us === undefined) return run('-', 'dim');
  const { dtype, simulated } = experiment;
  return run(
    `${dtypeWord(dtype)}${formatMicroseconds(p50Us)}${simulated ? ' sim' : ''}`,
    simulated ? 'warn' : undefined,
  );
}

const gatesRun = (experiment: ExperimentSummary): Run =>
  hasFigures(experiment) ? run(gatesText(experiment), gatesRole(experiment)) : run('');

/** Cells that id, name, cases, p50 and time need in addition to the cells that caseColumns() leaves for figures. */
const OTHER_CELLS = 24;

/** The columns for shapes that differ: one column, or one for each axis that differs. */
function shapeColumns(experiments: readonly ExperimentSummary[], width: number): Column<ExperimentSummary>[] {
  const axes = caseColumns(experiments, { shape: shownCase, width: width - OTHER_CELLS });
  if (axes.some(({ align }) => align === 'right')) return axes;
  return [{ title: 'shape', shrinkTo: 16, cell: (experiment) => run(shownShape(experiment), 'dim') }];
}

const historyColumns = (
  state: AppState,
  { shapes, whyCells }: { shapes: readonly Column<ExperimentSummary>[]; whyCells: number },
): Column<ExperimentSummary>[] => [
  { title: 'id', cell: ({ job }) => run(job === undefined ? '-' : shortName(job.name), 'dim') },
  {
    title: 'job',
    cell: ({ job }) =>
      job === undefined
        ? '-'
        : marked(
            jobMark(job).mark,
            `${isUnseen(state, job) ? '• ' : ''}${job.name === state.ui.pinned ? 'P ' : ''}${championMark(state, job.name)}${sourceMark(state, job)}${listTitle(state, job)}`,
            jobMark(job).role,
          ),
    shrinkTo: 16,
  },
  { title: 'kind', drop: 3, cell: ({ job }) => KIND_WORDS[job?.kind ?? JobKind.UNSPECIFIED] },
  {
    title: 'cases',
    align: 'right',
    drop: 1,
    cell: casesRun,
  },
  {
    title: 'max err',
    align: 'right',
    drop: 4,
    cell: (experiment) => (hasFigures(experiment) ? largestErrorText(experiment) : ''),
  },
  ...shapes,
  {
    title: 'p50 hot',
    align: 'right',
    cell: timeRun,
  },
  {
    title: 'hard gates',
    drop: 3.5,
    cell: (experiment) => gatesRun(withNotesNow(state, experiment)),
  },
  { title: 'device', drop: 5, cell: ({ deviceName }) => deviceName, shrinkTo: 12 },
  { title: 'source', drop: 6, cell: ({ sourceDigest }) => run(sourceDigest.slice(0, 10), 'dim') },
  {
    title: 'took',
    align: 'right',
    drop: 2,
    cell: ({ job }) => (job === undefined ? '-' : tookText(job, state.now)),
  },
  {
    title: 'sent',
    align: 'right',
    cell: ({ job }) => (job?.createTime === undefined ? '-' : formatWhen(job.createTime, state.now)),
  },
  {
    title: 'why not passed',
    drop: 0.5,
    shrinkTo: whyCells,
    cell: ({ job }) => run(job === undefined || job.outcome === Outcome.PASSED ? '' : stateText(job), 'dim'),
  },
];

export const sortRemark = ({ ui }: AppState): string =>
  ` by ${ui.historySort}${ui.filters.history === '' ? '' : `, only "${ui.filters.history}"`}`;

export function historyPane(state: AppState, size: Size): PaneContent {
  const title = '6 History';
  const experiments = historyOf(state);
  if (experiments.length === 0)
    return {
      title,
      body: emptyListRows(
        state,
        {
          all: endedRuns(state),
          none: 'No job has ended on this runner yet. 7, then Enter, runs one; t shows the leaderboard.',
          noun: 'ended job',
          filter: state.ui.filters.history,
        },
        size,
      ),
    };
  const selected = state.ui.selected.jobs;
  const simulated = experiments.some((experiment) => experiment.simulated) ? '; sim: not a GPU time' : '';
  const common = commonShape(experiments) ?? sharedText(experiments.map(shownCase), size.width - OTHER_CELLS);
  const legend = legendText(state, experiments);
  const isTall = size.height >= PREVIEW_FROM;
  const position = `${positionRemark(selected, experiments.length, 'ended job')}${sortRemark(state)}${hiddenText(state)}`;
  return {
    title: common === '' ? title : `${title}  p50 of experiments at ${common}`,
    remark: `${position}${isTall || legend === '' ? '' : `, ${legend}`}${simulated}`,
    body: withPreview(state, experiments, { size, legend }),
  };
}

/** The meaning of the marks that the listed jobs have. */
function legendText(state: AppState, experiments: readonly ExperimentSummary[]): string {
  const jobs = experiments.map(({ job }) => job);
  const names = jobs.map((job) => job?.name);
  return `${pinnedLegend(state, names)}${championLegend(state, names)}${sourceLegend(state, jobs)}${unseenLegend(state, jobs)}`.replace(
    /^, /,
    '',
  );
}

function summaryRows(experiment: ExperimentSummary, width: number): readonly Row[] {
  const { job } = experiment;
  if (job === undefined) return [];
  const { mark, role } = jobMark(job);
  const text = stateText(job, summaryBeside(job, experiment));
  return firstRows(noticeRows({ kind: 'notice', mark, role, text }, width), MOST_SUMMARY_ROWS, width);
}

/** The note given when the job was accepted or rejected. */
export const noteRows = (state: AppState, job: Job | undefined, width: number): Row[] => {
  const note = job === undefined ? '' : noteText(state, job.name);
  return note === '' ? [] : wrapRows(note, width, { hang: 2 });
};

const PREVIEW_FROM = 12;
/** The least share of the width for the reasons; figures are dropped before they get less. */
const WHY_SHARE = 0.25;
const MOST_SUMMARY_ROWS = 4;

const kindRows = ({ job }: ExperimentSummary, now: number): Row[] =>
  job === undefined
    ? []
    : [textRow(`${KIND_WORDS[job.kind]} ${shortName(job.name)}, took ${tookText(job, now)}`, 'dim')];

/** The list, with the results of the experiment under the cursor below it. */
function withPreview(
  state: AppState,
  experiments: readonly ExperimentSummary[],
  { size, legend }: { size: Size; legend: string },
): Row[] {
  const selected = state.ui.selected.jobs;
  const chosen = experiments[selected];
  const preview =
    chosen === undefined || size.height < PREVIEW_FROM
      ? []
      : [
          ...(legend === '' ? [] : [BLANK_ROW, ...wrapRows(legend, size.width, { role: 'dim' })]),
          [run('─'.repeat(size.width), 'border')],
          ...summaryRows(chosen, size.width),
          ...noteRows(state, chosen.job, size.width),
          // The runner keeps figures of experiments only.
          ...(state.experiments.includes(chosen)
            ? experimentRows(withNotesNow(state, chosen), size.width)
            : kindRows(chosen, state.now)),
        ];
  const isTimed = experiments.some(({ timings }) => timings.length > 0);
  const shapes = isTimed && commonShape(experiments) === undefined ? shapeColumns(experiments, size.width) : [];
  const whyCells = Math.floor(size.width * WHY_SHARE);
  const rows = list(historyColumns(state, { shapes, whyCells }), experiments, {
    width: size.width,
    height: size.height - preview.length,
    selected,
    focused: inJobs(state),
  });
  const blank = Array.from({ length: size.height - rows.length - preview.length }, () => BLANK_ROW);
  return [...rows, ...blank, ...preview];
}
