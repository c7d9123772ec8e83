import type { KernelReference } from '@flashcore/shared/contract';
import type { RunnerClient } from '@flashcore/shared/client';
import type { SourcePlace } from '../search/kernel-source.ts';
import type { LazyRunner } from './lazy-runner.ts';

/** What tools work with. */
export interface ToolContext {
  readonly runner: LazyRunner;
  /** Whether agents may decide: accept, reject, undo. */
  readonly mayDecide: boolean;
  /** The program's stderr: stdout has the protocol only. */
  readonly log: (text: string) => void;
  /** A kernel as an agent names it. Errors: Refused, INVALID_MANIFEST. */
  readonly kernelOf: (text: string) => Promise<SourcePlace>;
  /** As requests name it; uploads a folder. */
  readonly referenceTo: (place: SourcePlace, client: RunnerClient) => Promise<KernelReference>;
}
