/** The problems of view 7, and what the runner has of each. */
import { recordedProblem } from '@flashcore/shared/kernels';
import type { ListedProblem } from '../present/sections/problem.ts';
import type { AppState } from './app-state.ts';
import { inKernels } from './chosen.ts';
import { isFaulty, kernelKey, type ListedKernel } from './listed-kernel.ts';
import { problemsOf, selectedKernel } from './selectors.ts';

/** The problem under the cursor; undefined while view 7 lists kernels. */
export const selectedProblem = (state: AppState): ListedProblem | undefined =>
  state.ui.view === 'kernels' && state.ui.kernelList !== 'kernels'
    ? problemsOf(state)[state.ui.selected.kernels]
    : undefined;

interface KernelOfProblem {
  readonly id: string;
  /** Undefined if the kernel is the runner's own. */
  readonly folder?: string | undefined;
}

/**
 * Kernels of a problem: those listed in view 7, then others whose sources are on this machine. Those that are faulty on
 * purpose come last, because the form opens on the first.
 */
export function kernelsOfProblem({ kernels }: Pick<AppState, 'kernels'>, listed: ListedProblem): KernelOfProblem[] {
  const known = kernels.filter(
    ({ problem, manifestError }) => manifestError === undefined && recordedProblem(problem) === listed.id,
  );
  const ids = new Set(known.map(({ kernelId }) => kernelId));
  const ofKernel = ({ kernelId, folder }: ListedKernel): KernelOfProblem => ({ id: kernelId, folder });
  return [
    ...known.filter((kernel) => !isFaulty(kernel)).map(ofKernel),
    ...listed.kernels.filter(({ id }) => !ids.has(id)),
    ...known.filter(isFaulty).map(ofKernel),
  ];
}

/** Key of the kernel that view 7 copies: the one under the cursor, or the first one of the problem under it. */
export function kernelToCopy(state: AppState): string | undefined {
  const listed = selectedProblem(state);
  const [first] = listed === undefined ? [] : kernelsOfProblem(state, listed);
  if (first !== undefined) return first.folder ?? first.id;
  const kernel = inKernels(state) ? selectedKernel(state) : undefined;
  return kernel?.manifestError === undefined ? kernel && kernelKey(kernel) : undefined;
}

/** Labels of a problem's champions on this runner, the best of a device first. */
export const championsOf = ({ champions }: Pick<AppState, 'champions'>, id: string): string[] => [
  ...new Set(
    champions
      .filter(({ problem }) => recordedProblem(problem) === id)
      .toSorted((a, b) => Number(b.best) - Number(a.best))
      .map(({ label }) => label),
  ),
];
