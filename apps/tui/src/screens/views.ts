/** The eight views by id, and how far those without a cursor scroll. */
import type { AppState, ViewId } from '../state/app-state.ts';
import { COMPARE_HEAD_ROWS, comparePageRows } from './pinned/pinned-pages.ts';
import { correctnessView } from './correct/correctness.ts';
import { gatesView } from './gates/gates.ts';
import { hostRows, hostView } from './runner/host.ts';
import { jobsView } from './runner/jobs.ts';
import { kernelsView } from './runner/kernels.ts';
import { latencyView } from './latency/latency.ts';
import { profileRows, profileView } from './profile/profile.ts';
import { runView } from './run/run.ts';
import type { Size, View } from './pane/view.ts';

export const VIEW_FUNCTIONS: Record<ViewId, View> = {
  run: runView,
  correct: correctnessView,
  latency: latencyView,
  profile: profileView,
  gates: gatesView,
  jobs: jobsView,
  kernels: kernelsView,
  host: hostView,
};

/** The last first row of a view that scrolls as a whole; undefined for the others. */
export function scrollLimit(state: AppState, view: ViewId, { width, height }: Size): number | undefined {
  const compared = view === 'latency' && state.ui.comparing ? comparePageRows(state, { width, height }) : undefined;
  if (compared !== undefined) return Math.max(0, compared.length - (height - COMPARE_HEAD_ROWS));
  if (view !== 'profile' && view !== 'host') return undefined;
  const rows = view === 'profile' ? profileRows(state, width) : hostRows(state, width);
  return Math.max(0, rows.length - height);
}
