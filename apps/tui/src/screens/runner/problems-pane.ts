/** View 7 while it shows problems: what kernels can compute, with the definition of the selected problem. */
import { blockRows } from '../../present/cells/cells-painter.ts';
import { run, wrapRows, type Row } from '../../present/cells/row.ts';
import { notice, type Block } from '../../present/blocks.ts';
import { counted } from '../../present/numbers.ts';
import type { Column } from '../../present/cells/table.ts';
import { caseCount, dtypesOf, problemBlocks, type ListedProblem } from '../../present/sections/problem.ts';
import type { AppState } from '../../state/app-state.ts';
import { championsOf, kernelsOfProblem } from '../../state/listed-problems.ts';
import { kernelsOf, problemsOf } from '../../state/selectors.ts';
import { noMatchText } from '../pane/nothing.ts';
import { list } from '../pane/list.ts';
import { beside, pageOf, positionRemark, type PaneContent, type Size } from '../pane/view.ts';

const columnsOf = (state: AppState): Column<ListedProblem>[] => [
  { title: 'problem', shrinkTo: 16, cell: ({ id, error }) => run(id, error === undefined ? 'title' : 'bad') },
  { title: 'axes', drop: 2, cell: ({ problem }) => (problem?.axes ?? []).map(({ name }) => name).join(' ') },
  { title: 'tensors', drop: 4, cell: ({ problem }) => (problem?.tensors ?? []).map(({ name }) => name).join(' ') },
  {
    title: 'dtypes',
    drop: 3,
    cell: ({ problem }) => run(problem === undefined ? '' : dtypesOf(problem).join(' '), 'dim'),
  },
  { title: 'cases', align: 'right', cell: (listed) => String(caseCount(listed)) },
  { title: 'kernels', align: 'right', cell: (listed) => String(kernelsOfProblem(state, listed).length) },
  {
    title: 'champion',
    drop: 1,
    shrinkTo: 12,
    cell: ({ id }) => {
      const [champion, ...others] = championsOf(state, id);
      if (champion === undefined) return run('-', 'dim');
      return run(`★ ${champion}${others.length > 0 ? ` and ${others.length} more` : ''}`);
    },
  },
  {
    title: 'what it is',
    drop: 5,
    shrinkTo: 24,
    cell: ({ problem, error }) => (problem === undefined ? run(error ?? '', 'bad') : problem.title),
  },
];

const SIDE_BY_SIDE = 150;

/** Text such as "4 kernels": those that the filter of the problems would leave; empty if there are none. */
function matchingKernels({ kernels, experiments, ui }: AppState, filter: string): string {
  const { length } = kernelsOf({ kernels, experiments, ui: { ...ui, filters: { ...ui.filters, kernels: filter } } });
  return length === 0 ? '' : counted(length, 'kernel');
}

export function problemsPane(state: AppState, { width, height }: Size): PaneContent {
  const { ui } = state;
  const problems = problemsOf(state);
  const title = '7 Problems';
  if (problems.length === 0) {
    const none = state.problems === undefined ? 'Reading the problems.' : 'No problem is known here.';
    const text =
      (state.problems ?? []).length > 0
        ? noMatchText({
            noun: 'problem',
            filter: ui.filters.problems,
            others: matchingKernels(state, ui.filters.problems),
          })
        : `${none} t shows the kernels.`;
    return { title, body: wrapRows(text, width, { role: 'dim' }) };
  }
  const selected = ui.selected.kernels;
  const chosen = problems[Math.min(selected, problems.length - 1)]!;
  const definition = (size: Size): Row[] =>
    pageOf(blockRows(definitionBlocks(state, chosen), size.width), { height: size.height, page: ui.detail });
  const position = positionRemark(selected, problems.length, 'problem');
  if (ui.kernelList === 'definition')
    return {
      title: `7 Problem ${chosen.id}`,
      remark: `${position}, Enter opens the form of a kernel, Esc the list`,
      body: definition({ width, height }),
    };
  const remark = `${position}${ui.filters.problems === '' ? '' : `, only "${ui.filters.problems}"`}${notListedText(state)}, Enter opens it`;
  const look = { selected, focused: ui.view === 'kernels' && !ui.inRail };
  if (width >= SIDE_BY_SIDE) {
    const leftWidth = Math.floor(width * 0.55);
    return {
      title,
      remark,
      body: beside(
        list(columnsOf(state), problems, { ...look, width: leftWidth, height }),
        definition({ width: width - leftWidth - 2, height }),
        { leftWidth },
      ),
    };
  }
  const listHeight = Math.min(problems.length + 1, Math.max(4, Math.floor(height * 0.5)));
  const rows = list(columnsOf(state), problems, { ...look, width, height: listHeight });
  return {
    title,
    remark,
    body: [...rows, [run('─'.repeat(width), 'border')], ...definition({ width, height: height - rows.length - 1 })],
  };
}

/** Says why problems have more kernels than the list of kernels: theirs include the kernels of this machine. */
function notListedText(state: AppState): string {
  const listed = new Set(state.kernels.map(({ kernelId }) => kernelId));
  const others = (state.problems ?? []).flatMap(({ kernels }) => kernels).filter(({ id }) => !listed.has(id));
  return others.length === 0 ? '' : `, ${counted(others.length, 'kernel')} not run yet`;
}

/** The definition, and why some kernels of the problem are missing from the list of kernels. */
function definitionBlocks(state: AppState, chosen: ListedProblem): Block[] {
  const [title, about, ...rest] = problemBlocks(withRunners(state, chosen), championsOf(state, chosen.id));
  const listed = new Set(state.kernels.map(({ kernelId }) => kernelId));
  const others = chosen.kernels.filter(({ id }) => !listed.has(id)).map(({ id }) => id);
  const why = `Not run yet, so not among the kernels: ${others.join(', ')}. Enter opens the form`;
  return [title, about, ...(others.length === 0 ? [] : [notice(why, 'dim')]), ...rest].filter(
    (block) => block !== undefined,
  );
}

/** The problem with the runner's kernels along with the listed ones. */
const withRunners = (state: AppState, listed: ListedProblem): ListedProblem => ({
  ...listed,
  kernels: kernelsOfProblem(state, listed).map(({ id, folder = '' }) => ({ id, folder })),
});
