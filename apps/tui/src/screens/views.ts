/** The eight views by id, and the scroll limits of views without a cursor. */
import type { AppState, ViewId } from '../state/app-state.ts';
import { compareHeadRows, comparePageRows } from './pinned/pinned-pages.ts';
import { correctnessView } from './correct/correctness.ts';
import { gatesView } from './gates/gates.ts';
import { hostRows, hostView } from './runner/host.ts';
import { jobsView } from './runner/jobs.ts';
import { kernelsView } from './runner/kernels.ts';
import { latencyView } from './latency/latency.ts';
import { profileRows, profileView } from './profile/profile.ts';
import { buildRail } from './dashboard/build-rail.ts';
import { correctLive } from './dashboard/correct-live.ts';
import { findingPane } from './dashboard/finding-pane.ts';
import { gatesRail } from './dashboard/gates-rail.ts';
import { jobsRail } from './dashboard/jobs-rail.ts';
import { latencyLive } from './dashboard/latency-live.ts';
import type { PaneId } from './chrome/layout.ts';
import { logPane, runView } from './run/run.ts';
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

/** The functions that draw the panes of all layouts. */
export const PANE_FUNCTIONS: Record<PaneId, View> = {
  ...VIEW_FUNCTIONS,
  log: logPane,
  'jobs-rail': jobsRail,
  'gates-rail': gatesRail,
  'build-rail': buildRail,
  'correct-live': correctLive,
  'latency-live': latencyLive,
  finding: findingPane,
};

/** The largest first row of a view that scrolls as a whole; undefined for the other views. */
export function scrollLimit(state: AppState, view: ViewId, { width, height }: Size): number | undefined {
  const compared = view === 'latency' && state.ui.comparing ? comparePageRows(state, { width }) : undefined;
  if (compared !== undefined) return Math.max(0, compared.length - (height - compareHeadRows(state, { width })));
  if (view !== 'profile' && view !== 'host') return undefined;
  const rows = view === 'profile' ? profileRows(state, width) : hostRows(state, width);
  return Math.max(0, rows.length - height);
}
