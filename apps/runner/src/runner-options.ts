import type { PlannerOptions } from './experiment/planner.ts';
import type { JobPlanner } from './jobs/job-context.ts';
import type { Logger } from './log.ts';
import type { TraceTarget } from './operation/tracing.ts';
import type { ServeOptions } from './serve-options.ts';
import type { StreamLimits } from './rpc/open-streams.ts';
import type { OwnerOf } from './rpc/services.ts';
import type { ProcessGroups } from './sandbox/groups.ts';

/** Options of a runner: the user's, and those of the program that starts it. */
export interface RunnerOptions extends Omit<ServeOptions, 'problemFolders'> {
  version: string;
  /** Digest of the runner's own code. */
  buildId: string;
  repositoryRoot: string;
  logger: Logger;
  createPlanner: (options: PlannerOptions) => JobPlanner;
  /** Groups the processes of a sandbox, given the data folder's real path; default: no groups. */
  findGroups?: (dataDirectory: string) => ProcessGroups;
  /** Limits on streams other than the per-client limit, which is an option of serve. */
  streams?: Partial<StreamLimits>;
  /** Time limit for a connection to begin; default 10 s. */
  beginWithinMs?: number;
  /** The owner of a job; default: its caller. */
  ownerOf?: OwnerOf;
  /** Where to send the spans of ended jobs; default: nowhere. */
  traces?: TraceTarget | undefined;
}
