/** The results behind a view, for copies of it. */
import { toJson, type JsonValue } from '@bufbuild/protobuf';
import {
  BenchmarkResultSchema,
  CaseResultSchema,
  ExperimentSummarySchema,
  GateResultSchema,
  HostSchema,
  JobSchema,
  KernelSchema,
  LeaderboardEntrySchema,
  ProfileResultSchema,
} from '@flashcore/shared/contract';
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
import type { Snapshot } from '../state/log-search.ts';
import { historyOf, jobsOf, kernelsOf, leaderboardOf, problemsOf, shownVariant } from '../state/selectors.ts';

interface ViewResults {
  /**
   * The same blocks as in the plain report, so that a copy has the report's words and digits. Empty for a view without
   * blocks: a log, two jobs side by side, or a running measurement.
   */
  readonly blocks: Block[];
  /** The data in the proto's JSON mapping. */
  readonly data: JsonValue;
}

export function viewResults({ state, log }: Snapshot, view: ViewId): ViewResults {
  const variant = shownVariant(state);
  switch (view) {
    case 'run':
      return {
        blocks: [],
        data: Array.from({ length: log.end - log.start }, (_, index) => ({ ...log.at(log.start + index) })),
      };
    case 'correct':
      return {
        blocks: variant?.verify ? verifyBlocks(variant.verify) : [],
        data: (variant?.cases ?? []).map((one) => toJson(CaseResultSchema, one)),
      };
    case 'latency':
      return {
        blocks: variant === undefined || state.ui.comparing ? [] : latencyBlocks(variant),
        data: (variant?.benchmarks ?? []).flatMap(({ result }) =>
          result === undefined ? [] : [toJson(BenchmarkResultSchema, result)],
        ),
      };
    case 'profile':
      return {
        blocks: [
          ...(variant?.build ? buildBlocks(variant.build) : []),
          ...(variant?.profile ? [...profileBlocks(variant.profile), ...linesBlocks(variant.profile)] : []),
        ],
        data: variant?.profile === undefined ? null : toJson(ProfileResultSchema, variant.profile),
      };
    case 'gates':
      return {
        blocks: variant && variant.gates.length > 0 ? gatesBlocks(variant.gates) : [],
        data: (variant?.gates ?? []).map((gate) => toJson(GateResultSchema, gate)),
      };
    case 'jobs':
      return jobListResults(state);
    case 'kernels':
      return {
        blocks:
          state.ui.kernelList === 'kernels'
            ? kernelsBlocks(kernelsOf(state))
            : problemsOf(state).flatMap((listed) => problemBlocks(listed, championsOf(state, listed.id))),
        data: state.kernels.map((kernel) => toJson(KernelSchema, kernel)),
      };
    case 'host':
      return {
        blocks: state.host ? hostBlocks(state.host) : [],
        data: state.host === undefined ? null : toJson(HostSchema, state.host),
      };
  }
}

const latencyBlocks = ({ benchmarks, comparison }: VariantView): Block[] => [
  ...(comparison?.result ? comparisonBlocks(comparison.result) : []),
  ...timingBlocks(benchmarks.flatMap(({ result }) => result ?? [])),
];

function jobListResults(state: AppState): ViewResults {
  const leaders = leaderboardOf(state);
  switch (state.ui.jobList) {
    case 'jobs':
      return { blocks: jobsBlocks(jobsOf(state)), data: state.jobs.map((job) => toJson(JobSchema, job)) };
    case 'history':
      return {
        blocks: historyBlocks(historyOf(state)),
        data: historyOf(state).map((experiment) => toJson(ExperimentSummarySchema, experiment)),
      };
    case 'leaderboard':
      return {
        blocks:
          state.leaderboard === undefined
            ? []
            : leaderboardBlocks({ ...state.leaderboard, entries: leaders }, { limit: Infinity }),
        data: leaders.map((entry) => toJson(LeaderboardEntrySchema, entry)),
      };
  }
}
