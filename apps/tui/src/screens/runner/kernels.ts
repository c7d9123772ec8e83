/** View 7: the ladder of kernels, with the selected kernel's manifest beside or below it. */
import {
  FindingKind,
  JobKind,
  JobState,
  Outcome,
  type Job,
  type Device,
  type Kernel,
  TimingMode,
  type ExperimentSummary,
  parityText,
} from '@flashcore/shared/contract';
import { notice } from '../../present/blocks.ts';
import { noticeRows } from '../../present/cells/cells-painter.ts';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { counted, formatAge, formatMicroseconds, formatWhen } from '../../present/numbers.ts';
import {
  BLANK_ROW,
  flowRows,
  labelled,
  run,
  textRow,
  wrapRows,
  type Role,
  type Row,
  type Run,
} from '../../present/cells/row.ts';
import type { Column } from '../../present/cells/table.ts';
import type { AppState } from '../../state/app-state.ts';
import {
  usualDevice,
  usualParameter,
  isFaulty,
  type KernelParameter,
  type ListedKernel,
} from '../../state/listed-kernel.ts';
import { championMark } from '../../state/chosen.ts';
import { withNotesNow } from '../../state/decision.ts';
import { kernelsOf, lastExperiments, problemsOf } from '../../state/selectors.ts';
import { KIND_WORDS, findingWord, jobMark } from '../../present/words.ts';
import { commonShape, gatesInFull, gatesText, medianOf, shownShape } from '../../present/sections/lists.ts';
import { list } from '../pane/list.ts';
import { emptyListRows } from '../pane/nothing.ts';
import { beside, pageOf, positionRemark, type View, type Size } from '../pane/view.ts';
import { timingRows } from './experiment-rows.ts';
import { problemsPane } from './problems-pane.ts';

const SIDE_BY_SIDE = 100;

function kernelRole({ manifestError, expectedFinding }: Kernel): Role {
  if (manifestError !== undefined) return 'bad';
  return expectedFinding === FindingKind.UNSPECIFIED ? 'title' : 'warn';
}

interface KernelRow {
  readonly kernel: ListedKernel;
  /** The kernel's newest experiment on this runner. */
  readonly last: ExperimentSummary | undefined;
  /**
   * The kernel's open job, or else its newest job if it failed, or else the newest experiment, or else the newest ended
   * job. A job that was stopped has no verdict, so it is here only if the kernel has no other.
   */
  readonly job: Job | undefined;
  /** The kernel's newest job of any kind and outcome. */
  readonly newest: Job | undefined;
}

const timing =
  (wanted: TimingMode) =>
  ({ last }: KernelRow): Run => {
    const us = medianOf(last, wanted);
    return us === undefined ? run('-', 'dim') : run(`${formatMicroseconds(us)}${last?.simulated ? ' sim' : ''}`);
  };

const columns = (now: number, common: string | undefined): Column<KernelRow>[] => [
  {
    title: 'kernel',
    cell: ({ kernel }) => run(kernel.kernelId, kernelRole(kernel)),
    shrinkTo: 18,
  },
  { title: 'verdict', cell: verdictRun, shrinkTo: 16 },
  // Times of different shapes are not comparable, so each row then names its shape.
  ...(common === undefined
    ? [{ title: 'shape', shrinkTo: 12, cell: ({ last }: KernelRow) => run(shownShape(last), 'dim') }]
    : []),
  { title: 'p50 hot', align: 'right', cell: timing(TimingMode.HOT) },
  { title: 'cold', align: 'right', drop: 4, cell: timing(TimingMode.COLD) },
  {
    title: 'regs',
    align: 'right',
    drop: 1,
    cell: ({ last }) =>
      last?.registersPerThread === undefined ? run('-', 'dim') : run(String(last.registersPerThread)),
  },
  {
    title: 'hard gates',
    drop: 3,
    cell: ({ last }) => (last === undefined ? run('-', 'dim') : run(gatesText(last), 'dim')),
  },
  {
    title: 'last run',
    align: 'right',
    drop: 2,
    cell: ({ job, newest = job }) =>
      newest?.createTime === undefined
        ? run('never', 'dim')
        : run(formatAge((now - timestampMs(newest.createTime)) / 1000), 'dim'),
  },
  {
    title: 'what it is',
    drop: 6,
    shrinkTo: 16,
    cell: ({ kernel: { title, folder, isExample = false, manifestError } }) =>
      manifestError === undefined
        ? run(isExample ? title : (folder ?? title))
        : run(`manifest: ${manifestError}`, 'bad'),
  },
];

function verdictRun({ kernel, job }: KernelRow): Run {
  if (kernel.manifestError !== undefined) return run('✗ manifest', 'bad');
  if (job === undefined) return run('-', 'dim');
  const { mark, word, role } = jobMark(job);
  return run(`${mark} ${word}`, role);
}

/** Text such as "4 problems": those that the filter of the kernels would leave; empty if there are none. */
function matchingProblems({ problems, ui }: AppState, filter: string): string {
  const { length } = problemsOf({ problems, ui: { ...ui, filters: { ...ui.filters, problems: filter } } });
  return length === 0 ? '' : counted(length, 'problem');
}

export const kernelsView: View = ({ state }, { width, height }) => {
  const { ui } = state;
  if (ui.kernelList !== 'kernels') return problemsPane(state, { width, height });
  const kernels = kernelsOf(state);
  const name = ui.faulty ? '7 Kernels, faulty ones too' : '7 Kernels';
  if (kernels.length === 0)
    return {
      title: name,
      body: emptyListRows(
        state,
        {
          all: state.kernels,
          none: state.hasKernels
            ? 'This runner has no kernels: W watches a kernel folder of yours and runs what is saved.'
            : 'Reading the kernels.',
          noun: 'kernel',
          filter: ui.filters.kernels,
          others: matchingProblems(state, ui.filters.kernels),
        },
        { width, height },
      ),
    };
  const selected = ui.selected.kernels;
  const chosen = kernels[selected];
  const last = lastExperiments(state.experiments);
  const listed = kernels.map((kernel): KernelRow => {
    const experiment = last.get(kernel.kernelId);
    return {
      kernel,
      last: experiment && withNotesNow(state, experiment),
      job:
        openJob(state, kernel) ??
        latestFailure(state, kernel) ??
        unlessStopped(experiment?.job) ??
        latestEnded(state, kernel) ??
        experiment?.job ??
        lastOtherJob(state, kernel),
      newest: state.jobs.find(({ kernelId }) => kernelId === kernel.kernelId),
    };
  });
  // Another view may be paged while this one is next to it.
  const page = ui.view === 'kernels' ? ui.detail : 0;
  const common = commonShape(listed.map(({ last: experiment }) => experiment));
  const table = (size: Size): Row[] =>
    list(columns(state.now, common), listed, { ...size, selected, focused: ui.view === 'kernels' && !ui.inRail });
  const title = common === undefined ? name : `${name}  p50 at ${common}`;
  const remark = `${positionRemark(selected, kernels.length, 'kernel')}${ui.kernelSort === 'ladder' ? '' : ` by ${ui.kernelSort}`}${ui.filters.kernels === '' ? '' : `, only "${ui.filters.kernels}"`}, Enter ${chosen?.manifestError === undefined ? 'opens the form' : 'edits kernel.yaml'}${ui.faulty ? '' : ', F adds faulty ones'}`;
  if (width >= SIDE_BY_SIDE) {
    const leftWidth = Math.floor(width * 0.6);
    const left = table({ width: leftWidth, height });
    return {
      title,
      remark,
      body: beside(
        left,
        chosen === undefined ? [] : pageOf(detail(state, chosen, width - leftWidth - 2), { height, page }),
        { leftWidth },
      ),
    };
  }
  const listHeight = Math.min(kernels.length + 1, Math.max(4, Math.floor(height * 0.5)));
  const rows = table({ width, height: listHeight });
  const details =
    chosen === undefined ? [] : pageOf(detail(state, chosen, width), { height: height - rows.length - 1, page });
  return { title, remark, body: [...rows, [run('─'.repeat(width), 'border')], ...details] };
};

const openJob = ({ jobs }: AppState, { kernelId }: Kernel): Job | undefined =>
  jobs.find((job) => job.kernelId === kernelId && job.state !== JobState.ENDED);

/** The kernel's newest job that ran to its end, of any kind, if it failed: what an older experiment passed is past. */
function latestFailure(state: AppState, kernel: Kernel): Job | undefined {
  const newest = latestEnded(state, kernel);
  return newest?.outcome === Outcome.PASSED ? undefined : newest;
}

const STOPPED: readonly Outcome[] = [Outcome.CANCELLED, Outcome.INTERRUPTED];

const unlessStopped = (job: Job | undefined): Job | undefined =>
  job !== undefined && STOPPED.includes(job.outcome) ? undefined : job;

/** The kernel's newest job, of any kind, that ran to its end. */
const latestEnded = ({ jobs }: AppState, { kernelId }: Kernel): Job | undefined =>
  jobs.find((job) => job.kernelId === kernelId && job.state === JobState.ENDED && !STOPPED.includes(job.outcome));

const lastOtherJob = ({ jobs }: AppState, { kernelId }: Kernel): Job | undefined =>
  jobs.find((job) => job.kernelId === kernelId && job.state === JobState.ENDED);

function placeWord({ emulated, needsPtxEngine }: Kernel): string {
  if (!emulated) return 'needs a GPU';
  return needsPtxEngine ? "runs on the emulator's PTX engine" : 'runs on the emulator';
}

function detail(state: AppState, kernel: ListedKernel, width: number): Row[] {
  if (kernel.manifestError !== undefined)
    return [textRow(kernel.kernelId, 'title'), ...noticeRows(notice(kernel.manifestError, 'bad'), width)];
  const needs = [
    kernel.minArch === ''
      ? 'any architecture'
      : `${kernel.minArch}${kernel.minArch.endsWith('a') ? ' exactly' : ' or later'}`,
    placeWord(kernel),
  ];
  return [
    [run(kernel.kernelId, 'title'), run(kernel.after === undefined ? '' : `  after ${kernel.after}`, 'dim')],
    ...wrapRows(kernel.title, width),
    ...(kernel.folder === undefined
      ? []
      : wrapRows(`${kernel.isExample ? 'example' : 'your folder'}: ${kernel.folder}`, width, { hang: 2 })),
    ...(kernel.lesson === '' ? [] : wrapRows(`lesson: ${kernel.lesson}`, width, { role: 'accent', hang: 2 })),
    ...(isFaulty(kernel) ? noticeRows(notice(faultText(state, kernel), 'warn'), width) : []),
    ...lastResults(state, kernel, width),
    labelled('needs', needs.join(', ')),
    ...kernel.limits.flatMap(({ require, because }) => wrapRows(`shape: ${require} (${because})`, width, { hang: 2 })),
    ...kernel.parameters.flatMap((parameter) =>
      wrapRows(parameterText(parameter, usualDevice(state.host)), width, { hang: 2 }),
    ),
    ...(kernel.folder === undefined && !isFaulty(kernel)
      ? wrapRows(`your own copy: N, or fa-tui new NAME --from ${kernel.kernelId}`, width, { role: 'dim', hang: 2 })
      : []),
    ...(kernel.configs.length === 0 ? [] : wrapRows(`configs: ${kernel.configs.join(', ')}`, width, { hang: 2 })),
    ...notesRows(kernel, width),
  ];
}

/** What a run of a faulty kernel finds, and that the job which passed does not look for it. */
function faultText({ jobs }: AppState, { kernelId, expectedFinding }: ListedKernel): string {
  const newest = jobs.find((job) => job.kernelId === kernelId && job.state === JobState.ENDED);
  const passed = newest?.outcome === Outcome.PASSED && newest.kind !== JobKind.EXPERIMENT ? newest : undefined;
  const alone = passed === undefined ? '' : `, and ${KIND_WORDS[passed.kind]} alone may pass`;
  return `faulty on purpose: a whole run must find "${findingWord(expectedFinding)}"${alone}`;
}

/** Longer notes are read in the editor, which can search them. */
const MOST_NOTES_LINES = 20;

/** Short notes in full; of longer ones the headings. */
function notesRows({ notes }: Kernel, width: number): Row[] {
  const lines = notes.trim().split('\n');
  if (notes.trim() === '') return [];
  if (lines.length <= MOST_NOTES_LINES) return [BLANK_ROW, ...wrapRows(notes.trim(), width, { role: 'dim' })];
  const headings = lines.filter((line) => /^##+ /.test(line)).map((line) => line.replace(/^##+ /, ''));
  return [
    BLANK_ROW,
    [run('NOTES.md', 'title'), run(`  ${lines.length} lines, o opens them`, 'dim')],
    ...headings.flatMap((heading) => wrapRows(heading, width, { indent: 2, hang: 4 })),
  ];
}

/** A parameter's meaning and values. The value that a run takes by default is marked. */
function parameterText(parameter: KernelParameter, device: Device | undefined): string {
  const { name, values, about } = parameter;
  const usual = usualParameter(parameter, device);
  const marked = values.map((value) => `${value}${String(value) === usual && values.length > 1 ? ' (default)' : ''}`);
  return `${name} ${marked.join(', ')}${about === '' ? '' : `  ${about}`}`;
}

const MOST_RESULTS = 3;

/** An experiment that the runner's end interrupted has no result, so the number of its cases is unknown. */
function casesGroup(experiment: ExperimentSummary): Row[] {
  if (experiment.cases > 0) return [[run(parityText(experiment))]];
  return experiment.job?.outcome === Outcome.INTERRUPTED ? [] : [[run('no case ran')]];
}

/** Text such as " since 09:04": when the job was accepted, in UTC as in the dialog about it. */
function championSince(state: AppState, job: string | undefined): string {
  const time = state.champions.find((champion) => champion.job === job)?.decision?.time;
  return time === undefined ? '' : ` since ${formatWhen(time, state.now)}`;
}

/** The kernel's newest experiments. */
function lastResults(state: AppState, kernel: Kernel, width: number): Row[] {
  const { experiments, now } = state;
  const own = experiments.filter(({ job }) => job?.kernelId === kernel.kernelId).slice(0, MOST_RESULTS);
  if (own.length === 0) {
    const other = openJob(state, kernel) ?? lastOtherJob(state, kernel);
    if (other === undefined) return [textRow('not run on this runner yet', 'dim')];
    const { mark, word, role } = jobMark(other);
    return [
      [
        run(`${mark} `, role),
        run(word),
        run(
          other.kind === JobKind.EXPERIMENT
            ? '  experiment, not in the history yet'
            : `  ${KIND_WORDS[other.kind]}; no experiment yet`,
          'dim',
        ),
      ],
    ];
  }
  return own.flatMap((experiment): Row[] => {
    const { job } = experiment;
    const { mark, word, role } = jobMark(job ?? { state: JobState.ENDED, outcome: Outcome.UNSPECIFIED });
    const age = job?.createTime === undefined ? '' : ` ${formatAge((now - timestampMs(job.createTime)) / 1000)}`;
    return [
      ...flowRows(
        [
          [
            run(`${mark} `, role),
            run(word),
            run(championMark(state, job?.name) === '' ? '' : `, ★ champion${championSince(state, job?.name)}`),
            // Next to the time of the acceptance, the age says of what it is.
            run(championMark(state, job?.name) === '' || age === '' ? age : `, run${age}`, 'dim'),
          ],
          ...casesGroup(experiment),
          ...(experiment.hardGates > 0
            ? [[run(`hard gates: ${gatesInFull(withNotesNow(state, experiment))}`, 'dim')]]
            : []),
        ],
        width,
      ),
      ...timingRows(experiment, width),
    ];
  });
}
