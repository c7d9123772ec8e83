import type { Quotas } from '../access/quotas.ts';
import type { HostDescriber } from '../host.ts';
import type { JobPlanner } from '../jobs/job-context.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { KernelCatalog } from '../kernels.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import type { DecisionStore } from '../store/decisions.ts';
import type { HistoryStore } from '../store/history.ts';
import type { Leaderboard } from '../store/leaderboard.ts';
import type { SourceStore } from '../store/sources.ts';

/** The parts of the runner that answer the RPCs. */
export interface Services {
  jobs: Jobs;
  planner: JobPlanner;
  kernels: KernelCatalog;
  sources: SourceStore;
  artifacts: ArtifactStore;
  history: HistoryStore;
  leaderboard: Leaderboard;
  decisions: DecisionStore;
  host: HostDescriber;
  quotas: Quotas;
  ownerOf: OwnerOf;
}

/** The owner of a request's job, if the caller acts for somebody else; undefined: the caller. */
export type OwnerOf = (requestId: string) => string | undefined;
