/**
 * The results behind a view as blocks, the same that the plain report uses, so that a copy has the report's words and
 * digits. Empty for a view without blocks: a log, two jobs side by side, or a running measurement.
 */
import type { Block } from '../present/blocks.ts';
import { buildBlocks } from '../present/sections/build.ts';
import { verifyBlocks } from '../present/sections/cases.ts';
import { comparisonBlocks } from '../present/sections/comparison.ts';
import { profileBlocks } from '../present/sections/counters.ts';
import { gatesBlocks } from '../present/sections/gates.ts';
import { hostBlocks } from '../present/sections/host.ts';
import { leaderboardBlocks } from '../present/sections/leaderboard.ts';
import { linesBlocks } from '../present/sections/lines.ts';
import { historyBlocks, jobsBlocks, kernelsBlocks } from '../present/sections/lists.ts';
import { problemBlocks } from '../present/sections/problem.ts';
import { timingBlocks } from '../present/sections/timings.ts';
import type { AppState, ViewId } from '../state/app-state.ts';
import type { VariantView } from '../state/job-view.ts';
import { championsOf } from '../state/listed-problems.ts';
import { historyOf, jobsOf, kernelsOf, leaderboardOf, problemsOf, shownVariant } from '../state/selectors.ts';

export function viewBlocks(state: AppState, view: ViewId): Block[] {
  const variant = shownVariant(state);
  switch (view) {
    case 'run':
      return [];
    case 'correct':
      return variant?.verify ? verifyBlocks(variant.verify) : [];
    case 'latency':
      return variant === undefined || state.ui.comparing ? [] : latencyBlocks(variant);
    case 'profile':
      return [
        ...(variant?.build ? buildBlocks(variant.build) : []),
        ...(variant?.profile ? [...profileBlocks(variant.profile), ...linesBlocks(variant.profile)] : []),
      ];
    case 'gates':
      return variant && variant.gates.length > 0 ? gatesBlocks(variant.gates) : [];
    case 'jobs':
      return jobListBlocks(state);
    case 'kernels':
      return state.ui.kernelList === 'kernels'
        ? kernelsBlocks(kernelsOf(state))
        : problemsOf(state).flatMap((listed) => problemBlocks(listed, championsOf(state, listed.id)));
    case 'host':
      return state.host ? hostBlocks(state.host) : [];
  }
}

const latencyBlocks = ({ benchmarks, comparison }: VariantView): Block[] => [
  ...(comparison?.result ? comparisonBlocks(comparison.result) : []),
  ...timingBlocks(benchmarks.flatMap(({ result }) => result ?? [])),
];

function jobListBlocks(state: AppState): Block[] {
  switch (state.ui.jobList) {
    case 'jobs':
      return jobsBlocks(jobsOf(state));
    case 'history':
      return historyBlocks(historyOf(state));
    case 'leaderboard':
      return state.leaderboard === undefined
        ? []
        : leaderboardBlocks({ ...state.leaderboard, entries: leaderboardOf(state) }, { limit: Infinity });
  }
}
