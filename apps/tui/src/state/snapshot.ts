import type { AppState } from './app-state.ts';
import type { LogBuffer } from './log-buffer.ts';
import type { LogSearch } from './log-search.ts';

/** The data of one frame. A new object whenever anything changed. */
export interface Snapshot {
  readonly state: AppState;
  /** Log of the attached job. */
  readonly log: LogBuffer;
  readonly search: LogSearch | undefined;
}
