/** View 7: the ladder of kernels; beside or below it what the manifest of the selected one says. */
import { FindingKind, JobState, Outcome, type Kernel } from '@flashcore/shared/contract';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { formatAge, formatMicroseconds } from '../../present/numbers.ts';
import { BLANK_ROW, fitRow, labelled, run, textRow, wrapRows, type Role, type Row } from '../../present/cells/row.ts';
import type { Column } from '../../present/cells/table.ts';
import type { AppState } from '../../state/app-state.ts';
import { kernelsOf } from '../../state/selectors.ts';
import { gatesText } from '../../present/sections/lists.ts';
import { findingWord, jobMark } from '../../present/words.ts';
import { list } from '../pane/list.ts';
import { beside, pageOf, positionRemark, type View } from '../pane/view.ts';

const SIDE_BY_SIDE = 100;

function kernelRole({ manifestError, expectedFinding }: Kernel): Role {
  if (manifestError !== undefined) return 'bad';
  return expectedFinding === FindingKind.UNSPECIFIED ? 'title' : 'warn';
}

const COLUMNS: Column<Kernel>[] = [
  {
    title: 'kernel',
    cell: (kernel) => run(kernel.kernelId, kernelRole(kernel)),
    shrinkTo: 18,
  },
  {
    title: 'what it is',
    drop: 1,
    shrinkTo: 16,
    cell: ({ title, manifestError }) =>
      manifestError === undefined ? run(title) : run(`manifest: ${manifestError}`, 'bad'),
  },
];

export const kernelsView: View = ({ state }, { width, height }) => {
  const { ui } = state;
  const kernels = kernelsOf(state);
  const title = ui.faulty ? '7 Kernels, faulty ones too' : '7 Kernels';
  if (state.kernels.length === 0)
    return {
      title,
      body: wrapRows(
        state.connection === 'connected'
          ? 'This runner has no kernels: W watches a kernel folder of yours and runs what is saved.'
          : `No answer from ${state.runner.label} yet: fa-tui keeps trying. q leaves.`,
        width,
        { role: 'dim' },
      ),
    };
  if (kernels.length === 0)
    return {
      title,
      body: wrapRows(`No kernel has "${ui.filters.kernels}". / changes the filter, Esc shows all.`, width, {
        role: 'warn',
      }),
    };
  const selected = ui.selected.kernels;
  const chosen = kernels[selected];
  const remark = `${positionRemark(selected, kernels.length, 'kernel')}${ui.filters.kernels === '' ? '' : `, only "${ui.filters.kernels}"`}, Enter runs it`;
  if (width >= SIDE_BY_SIDE) {
    const leftWidth = Math.floor(width * 0.5);
    const left = list(COLUMNS, kernels, { width: leftWidth, height, selected, focused: ui.view === 'kernels' });
    return {
      title,
      remark,
      body: beside(
        left,
        chosen === undefined ? [] : pageOf(detail(state, chosen, width - leftWidth - 2), { height, page: ui.detail }),
        { leftWidth },
      ),
    };
  }
  const listHeight = Math.min(kernels.length + 1, Math.max(4, Math.floor(height * 0.5)));
  const table = list(COLUMNS, kernels, { width, height: listHeight, selected, focused: ui.view === 'kernels' });
  const details =
    chosen === undefined
      ? []
      : pageOf(detail(state, chosen, width), { height: height - table.length - 1, page: ui.detail });
  return { title, remark, body: [...table, [run('─'.repeat(width), 'border')], ...details] };
};

function detail(state: AppState, kernel: Kernel, width: number): Row[] {
  if (kernel.manifestError !== undefined)
    return [textRow(kernel.kernelId, 'title'), ...wrapRows(kernel.manifestError, width, { role: 'bad' })];
  const needs = [
    kernel.minArch === ''
      ? 'any architecture'
      : `${kernel.minArch}${kernel.minArch.endsWith('a') ? ' exactly' : ' or later'}`,
    kernel.emulated ? 'runs on the emulator' : 'needs a GPU',
  ];
  return [
    [run(kernel.kernelId, 'title'), run(kernel.after === undefined ? '' : `  after ${kernel.after}`, 'dim')],
    ...wrapRows(kernel.title, width),
    ...(kernel.lesson === '' ? [] : wrapRows(`lesson: ${kernel.lesson}`, width, { role: 'accent', hang: 2 })),
    ...(kernel.expectedFinding === FindingKind.UNSPECIFIED
      ? []
      : wrapRows(`faulty on purpose: a run must find "${findingWord(kernel.expectedFinding)}"`, width, {
          role: 'warn',
        })),
    ...lastResults(state, kernel, width),
    labelled('needs', needs.join(', ')),
    ...kernel.limits.flatMap(({ require, because }) => wrapRows(`shape: ${require} (${because})`, width, { hang: 2 })),
    ...kernel.parameters.flatMap(({ name, values, defaultValue, about }) =>
      wrapRows(
        `${name} = ${values.map((value) => (value === defaultValue && values.length > 1 ? `[${value}]` : String(value))).join(' ')}${about === '' ? '' : `: ${about}`}`,
        width,
        { hang: 2 },
      ),
    ),
    ...(kernel.configs.length === 0 ? [] : wrapRows(`configs: ${kernel.configs.join(', ')}`, width, { hang: 2 })),
    ...(kernel.notes === '' ? [] : [BLANK_ROW, ...wrapRows(kernel.notes.trim(), width, { role: 'dim' })]),
  ];
}

const MOST_RESULTS = 3;

/** What came of it lately: the newest experiments of the kernel. */
function lastResults({ experiments, now }: AppState, { kernelId }: Kernel, width: number): Row[] {
  const own = experiments.filter(({ job }) => job?.kernelId === kernelId).slice(0, MOST_RESULTS);
  if (own.length === 0) return [textRow('not run on this runner yet', 'dim')];
  return own.map((experiment): Row => {
    const { job, passedCases, cases, p50Us, simulated } = experiment;
    const { mark, word, role } = jobMark(job ?? { state: JobState.ENDED, outcome: Outcome.UNSPECIFIED });
    const time = p50Us === undefined ? '' : `  p50 ${formatMicroseconds(p50Us)}${simulated ? ' sim' : ''}`;
    const age = job?.createTime === undefined ? '' : `  ${formatAge((now - timestampMs(job.createTime)) / 1000)}`;
    return fitRow(
      [
        run(`${mark} ${word}`, role),
        run(`  ${passedCases}/${cases} cases${time}`),
        run(`  ${gatesText(experiment)}${experiment.hardGates > 0 ? ' gates passed' : ''}${age}`, 'dim'),
      ],
      width,
    );
  });
}
