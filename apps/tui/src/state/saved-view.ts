/** The part of the state that is kept between runs of the program. */
import * as z from 'zod';
import { DISTRIBUTIONS, HISTORY_SORTS, JOB_LISTS, VIEWS, type AppState, KERNEL_SORTS } from './app-state.ts';

export const SAVED_VIEW = z.object({
  view: z.enum(VIEWS),
  zoomed: z.boolean(),
  /** Name of the job shown. */
  job: z.string().optional(),
  pinned: z.string().optional(),
  jobList: z.enum(JOB_LISTS),
  historySort: z.enum(HISTORY_SORTS),
  kernelSort: z.enum(KERNEL_SORTS).default('ladder'),
  historyFilter: z.string(),
  faulty: z.boolean(),
  distribution: z.enum(DISTRIBUTIONS),
  wrap: z.boolean(),
  mouse: z.boolean().default(false),
  /** When the user left, which is when the last key was pressed, in milliseconds since 1970. */
  leftAt: z.number().optional(),
});

export type SavedView = z.output<typeof SAVED_VIEW>;

/** `leftAt`: when the user last pressed a key, in milliseconds since 1970. */
export function savedViewOf({ ui, attached, now }: AppState, leftAt = now): SavedView {
  const { view, zoomed, pinned, jobList, historySort, kernelSort, filters, faulty, distribution, log, mouse } = ui;
  return {
    view,
    zoomed,
    job: attached,
    pinned,
    jobList,
    historySort,
    kernelSort,
    historyFilter: filters.history,
    faulty,
    distribution,
    wrap: log.wrap,
    mouse,
    leftAt,
  };
}

/** Restores the saved view except its job. The job may no longer exist, so the session looks for it and shows it. */
export function withSavedView(
  state: AppState,
  {
    view,
    zoomed,
    pinned,
    jobList,
    historySort,
    kernelSort,
    historyFilter,
    faulty,
    distribution,
    wrap,
    mouse,
    leftAt,
  }: SavedView,
): AppState {
  return {
    ...state,
    leftAt,
    ui: {
      ...state.ui,
      view,
      zoomed,
      pinned,
      jobList,
      historySort,
      kernelSort,
      filters: { ...state.ui.filters, history: historyFilter },
      faulty,
      distribution,
      mouse,
      log: { ...state.ui.log, wrap },
    },
  };
}
