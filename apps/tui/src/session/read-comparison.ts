/** Reads what a comparison of two jobs needs beyond their results: samples, and the sources that differ. */
import { entryOf } from '@flashcore/shared/text';
import type { AppState } from '../state/app-state.ts';
import { changedSources, samplesOf, type PinnedComparison } from '../state/pinned.ts';
import type { JobView } from '../state/job-view.ts';
import type { RunnerPort } from './runner-port.ts';
import type { Store } from './store.ts';

interface Reading {
  readonly client: Pick<RunnerPort, 'readArtifact'>;
  readonly store: Store;
  readonly signal?: AbortSignal;
}

/** Reads the samples of the jobs' benchmarks. Emulator times are not compared, so their samples are left out. */
export async function readSamples(
  jobs: readonly (JobView | undefined)[],
  { client, store, signal }: Reading,
): Promise<void> {
  const results = jobs
    .flatMap((job) => job?.variants ?? [])
    .flatMap(({ benchmarks }) => benchmarks.flatMap(({ result }) => result ?? []));
  for (const { simulated, samples } of results) {
    if (simulated || samples === undefined || entryOf(store.state.samples, samples.sha256) !== undefined) continue;
    const bytes = await client.readArtifact(samples.sha256, signal === undefined ? {} : { signal });
    store.dispatch({ type: 'samples', sha256: samples.sha256, samples: samplesOf(bytes) });
  }
}

/** Reads the files that differ. */
export async function readSources(
  comparison: Pick<PinnedComparison, 'pinned' | 'shown'> | undefined,
  { client, store, signal }: Reading,
): Promise<void> {
  const isKnown = (sha256: string): boolean =>
    entryOf<AppState['sources'][string]>(store.state.sources, sha256) !== undefined;
  const pairs = comparison === undefined ? [] : changedSources(comparison);
  for (const file of pairs.flatMap(({ pinned, shown }) => [pinned, shown])) {
    if (file === undefined || isKnown(file.sha256)) continue;
    const bytes = await client.readArtifact(file.sha256, signal === undefined ? {} : { signal });
    store.dispatch({ type: 'source', sha256: file.sha256, text: new TextDecoder().decode(bytes) });
  }
}
