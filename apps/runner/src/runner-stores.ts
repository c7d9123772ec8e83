import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { KernelCatalog } from './kernels.ts';
import type { Services } from './rpc/call.ts';
import type { RunnerOptions } from './serve-options.ts';
import { PROTOCOL_VERSION } from './spec/benchmark-protocol.ts';
import { ArtifactStore } from './store/artifacts.ts';
import { BuildStore, SourceStore } from './store/sources.ts';
import { openDatabase, refuseEmptyDatabase, type Database } from './store/database.ts';
import { DecisionStore } from './store/decisions.ts';
import { HistoryStore } from './store/history.ts';
import { Leaderboard } from './store/leaderboard.ts';
import { clearTemporary } from './store/temporary.ts';
import { WriteState } from './store/write-state.ts';

/** The stores in a runner's data folder. */
export interface RunnerStores extends Pick<
  Services,
  'history' | 'leaderboard' | 'decisions' | 'sources' | 'artifacts' | 'kernels'
> {
  database: Database;
  writes: WriteState;
  /** Resolves when everything stored so far is on the disk. Errors: DISK_FULL, which the write state also records. */
  synced: () => Promise<void>;
}

/** Opens the stores of a data folder whose lock the caller has; `undo` closes them. */
export function openStores(
  { dataDirectory, kernelsDirectory, logger }: RunnerOptions,
  undo: DisposableStack,
): RunnerStores {
  clearTemporary(dataDirectory);
  refuseEmptyDatabase(dataDirectory);
  const database = undo.adopt(openDatabase(join(dataDirectory, 'flashcore.db')), (opened) => opened.close());
  const writes = undo.adopt(new WriteState({ database, dataDirectory, logger }), (state) => state.close());
  const sources = new SourceStore(join(dataDirectory, 'sources'));
  const kernels = new KernelCatalog(kernelsDirectory, sources, new BuildStore(database));
  return {
    database,
    writes,
    history: new HistoryStore(database),
    leaderboard: new Leaderboard(database, {
      protocol: PROTOCOL_VERSION,
      sourcesOf: (kernelId) => kernels.sourceDigestOf(kernelId),
    }),
    decisions: new DecisionStore(database),
    sources,
    // The real path, because a sandboxed worker does not see a link to the folder.
    artifacts: new ArtifactStore(join(realpathSync(dataDirectory), 'artifacts')),
    kernels,
    synced: () =>
      database.synced().catch((error: unknown) => {
        writes.failed(error);
        throw error;
      }),
  };
}
