import type { KernelReference } from '@flashcore/shared/contract';
import type { RunnerClient } from '@flashcore/shared/client';
import type { SourcePlace } from '../search/kernel-source.ts';
import type { LazyRunner } from './lazy-runner.ts';

/** Dependencies of the tools. */
export interface ToolContext {
  readonly runner: LazyRunner;
  /** True if agents may decide: accept, reject, undo. */
  readonly mayDecide: boolean;
  /** Writes to stderr, because stdout is reserved for the protocol. */
  readonly log: (text: string) => void;
  /** The kernel that an agent named. Errors: Refused, INVALID_MANIFEST. */
  readonly kernelOf: (text: string) => Promise<SourcePlace>;
  /** The kernel's reference in requests; uploads a folder. */
  readonly referenceTo: (place: SourcePlace, client: RunnerClient) => Promise<KernelReference>;
}
