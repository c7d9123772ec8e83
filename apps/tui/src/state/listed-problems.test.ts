import { create } from '@bufbuild/protobuf';
import { ChampionSchema, KernelSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { LISTED_PROBLEMS } from '../testing/decode-job.ts';
import type { Action } from './actions.ts';
import { reduce } from './app-reducer.ts';
import { initialState, type AppState } from './app-state.ts';
import { championsOf, kernelsOfProblem, selectedProblem } from './listed-problems.ts';
import { problemsOf, selectedKernel } from './selectors.ts';

const FRESH = initialState({ runner: { label: '', embedded: true }, columns: 80, rows: 24, now: 0 });
const after = (...actions: Action[]): AppState => actions.reduce(reduce, FRESH);
const IN_PROBLEMS: Action[] = [
  { type: 'problems', problems: LISTED_PROBLEMS },
  { type: 'show', view: 'kernels' },
  { type: 'kernel-list', list: 'problems' },
];

test('the cursor stays on its problem while the definition opens and closes, and is on the first kernel when kernels are shown', () => {
  const chosen = after(...IN_PROBLEMS, { type: 'move', by: 5 });
  const opened = reduce(chosen, { type: 'kernel-list', list: 'definition' });
  const closed = reduce(opened, { type: 'kernel-list', list: 'problems' });
  expect([chosen, opened, closed].map((state) => selectedProblem(state)?.id)).toEqual(Array(3).fill('my_norm'));
  const kernels = reduce(closed, { type: 'kernel-list', list: 'kernels' });
  expect([selectedProblem(kernels), kernels.ui.selected.kernels]).toEqual([undefined, 0]);
});

test('kernels that arrive while problems are listed move no cursor', () => {
  const kernels = ['a', 'b'].map((kernelId) => create(KernelSchema, { kernelId }));
  const state = after(...IN_PROBLEMS, { type: 'move', by: 1 }, { type: 'kernels', kernels });
  expect([selectedProblem(state)?.id, selectedKernel(state)?.kernelId]).toEqual(['my_norm', 'b']);
});

test('problems and kernels have separate filters', () => {
  const state = after(...IN_PROBLEMS, { type: 'list-filter', list: 'problems', text: 'sqrt MEAN' });
  expect([problemsOf(state).map(({ id }) => id), state.ui.filters.kernels]).toEqual([['my_norm'], '']);
});

test("a problem has the runner's kernels, then those of this machine, and its champions, the best first", () => {
  const kernels = [
    create(KernelSchema, { kernelId: 'fa_v1' }),
    create(KernelSchema, { kernelId: 'norm', problem: 'my_norm' }),
    create(KernelSchema, { kernelId: 'unreadable', problem: 'my_norm', manifestError: 'x' }),
  ];
  const champions = [
    create(ChampionSchema, { label: 'norm A', problem: 'my_norm' }),
    create(ChampionSchema, { label: 'norm B', problem: 'my_norm', best: true }),
    create(ChampionSchema, { label: 'norm A', problem: 'my_norm' }),
    create(ChampionSchema, { label: 'fa_v1' }),
  ];
  expect(kernelsOfProblem({ kernels }, LISTED_PROBLEMS[1]!).map(({ id }) => id)).toEqual(['norm', 'my_norm_v1']);
  expect(['my_norm', 'attention', 'gemm'].map((id) => championsOf({ champions }, id))).toEqual([
    ['norm B', 'norm A'],
    ['fa_v1'],
    [],
  ]);
});
