import type { PlannerOptions } from './experiment/planner.ts';
import type { JobPlanner } from './jobs/job-context.ts';
import type { Logger } from './log.ts';
import type { TraceTarget } from './operation/tracing.ts';
import type { ServeOptions } from './serve-options.ts';
import type { StreamLimits } from './rpc/open-streams.ts';
import type { OwnerOf } from './rpc/services.ts';
import type { ProcessGroups } from './sandbox/groups.ts';

/** What a runner is started with: what its user says, and what the program that it is brings. */
export interface RunnerOptions extends Omit<ServeOptions, 'problemFolders'> {
  version: string;
  /** Digest of the runner's own code. */
  buildId: string;
  repositoryRoot: string;
  logger: Logger;
  createPlanner: (options: PlannerOptions) => JobPlanner;
  /** What keeps the processes of a box together, by the real name of the data folder; default: nothing. */
  findGroups?: (dataDirectory: string) => ProcessGroups;
  /** Besides the streams of one client, which are an option of serve. */
  streams?: Partial<StreamLimits>;
  /** How long a connection may take to begin; default 10 s. */
  beginWithinMs?: number;
  /** Default: each job is its caller's. */
  ownerOf?: OwnerOf;
  /** Where the spans of ended jobs go; default: nowhere. */
  traces?: TraceTarget | undefined;
}
