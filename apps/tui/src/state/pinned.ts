/**
 * Compares the shown job with the pinned one: the latency of shapes that both measured, and the resources of their
 * builds.
 */
import { ArtifactKind, type Artifact, type ProfileResult } from '@flashcore/shared/contract';
import { ratioInterval } from '@flashcore/shared/statistics';
import { entryOf } from '@flashcore/shared/text';
import {
  ENTRY_FIGURES,
  formatShape,
  recordedDtype,
  recordedProblem,
  type EntryFigureName,
} from '@flashcore/shared/kernels';
import type { PairedVerdict } from '../present/sections/paired.ts';
import type { AppState, ComparePage } from './app-state.ts';
import type { BenchmarkView, JobView, VariantView } from './job-view.ts';
import { attachedJob, shownVariant, variantsOf } from './selectors.ts';

export interface LatencyPair {
  readonly pinned: BenchmarkView;
  readonly shown: BenchmarkView;
  /** Median of the pinned job over median of the shown job; above 1, the shown job is faster. */
  readonly ratio?: { readonly ratio: number; readonly low: number; readonly high: number } | undefined;
  readonly verdict?: PairedVerdict | undefined;
  /** The reason why there is no ratio. */
  readonly notCompared?: string | undefined;
}

export interface ComparedJob {
  readonly job: JobView;
  readonly variant: VariantView;
}

export interface PinnedComparison {
  readonly pinned: ComparedJob;
  readonly shown: ComparedJob;
  readonly pairs: readonly LatencyPair[];
}

/** Undefined if one of the two jobs is missing. */
export function pinnedComparison(state: AppState): PinnedComparison | undefined {
  const pinnedJob = state.ui.pinned === undefined ? undefined : entryOf(state.views, state.ui.pinned);
  const pinned = comparedJob(pinnedJob, variantsOf(pinnedJob)[0]);
  const shown = comparedJob(attachedJob(state), shownVariant(state));
  return pinned === undefined || shown === undefined ? undefined : comparisonOf(state, { pinned, shown });
}

/** Compares two jobs, as far as their samples have been read. */
export function comparisonOf(
  state: Pick<AppState, 'samples'>,
  { pinned, shown }: Pick<PinnedComparison, 'pinned' | 'shown'>,
): PinnedComparison {
  const differ = problemsDiffer({ pinned, shown });
  const pairs = shown.variant.benchmarks.flatMap((own): LatencyPair[] => {
    const other = pinned.variant.benchmarks.find(({ key }) => key === own.key);
    if (other === undefined || own.subject !== 'candidate') return [];
    if (differ !== undefined) return [{ pinned: other, shown: own, notCompared: differ }];
    return [pairOf(state, [pinned.job, other], [shown.job, own])];
  });
  return { pinned, shown, pairs };
}

/**
 * Why the figures of the two jobs are not figures of the same work, such as "different problems: rmsnorm and
 * attention"; undefined if they are.
 */
export function problemsDiffer({ pinned, shown }: Pick<PinnedComparison, 'pinned' | 'shown'>): string | undefined {
  const [before, after] = [pinned, shown].map(({ job: { provenance } }) => ({
    problem: provenance && recordedProblem(provenance.problem),
    dtype: provenance && recordedDtype(provenance.dtype),
  }));
  if (before?.problem !== after?.problem && before?.problem !== undefined && after?.problem !== undefined)
    return `different problems: ${before.problem} and ${after.problem}`;
  if (before?.dtype !== after?.dtype && before?.dtype !== undefined && after?.dtype !== undefined)
    return `different dtypes: ${before.dtype} and ${after.dtype}`;
  return undefined;
}

export const comparedJob = (job: JobView | undefined, variant: VariantView | undefined): ComparedJob | undefined =>
  job === undefined || variant === undefined ? undefined : { job, variant };

function pairOf(
  { samples }: Pick<AppState, 'samples'>,
  [pinnedJob, pinned]: [JobView, BenchmarkView],
  [shownJob, shown]: [JobView, BenchmarkView],
): LatencyPair {
  const notCompared = (why: string): LatencyPair => ({ pinned, shown, notCompared: why });
  if (pinned.simulated || shown.simulated) return notCompared('simulated, not GPU times');
  if (pinnedJob.device?.name !== shownJob.device?.name)
    return notCompared(`other device: ${pinnedJob.device?.name ?? 'unknown'}`);
  const [pinnedProtocol, shownProtocol] = [pinnedJob, shownJob].map(({ provenance }) => provenance?.protocol);
  if (pinnedProtocol !== shownProtocol) return notCompared(`other protocol: ${pinnedProtocol ?? 'unknown'}`);
  const [pinnedSamples, shownSamples] = [pinned, shown].map(({ result }) =>
    entryOf(samples, result?.samples?.sha256 ?? ''),
  );
  if (pinnedSamples === undefined || shownSamples === undefined) return notCompared('its samples are not here');
  if (pinnedSamples.length < 2 || shownSamples.length < 2) return notCompared('fewer than two samples');
  const ratio = ratioOf(pinnedSamples, shownSamples);
  return { pinned, shown, ratio, verdict: verdictOf(ratio) };
}

type Ratio = ReturnType<typeof ratioInterval>;

function verdictOf({ low, high }: Ratio): PairedVerdict {
  if (low > 1) return 'faster';
  return high < 1 ? 'slower' : 'no difference shown';
}

// Computing a ratio takes 4,000 resamples, and the samples of a pair never change, so it is computed once rather than
// in every frame.
const ratios = new WeakMap<readonly number[], WeakMap<readonly number[], Ratio>>();

function ratioOf(above: readonly number[], below: readonly number[]): Ratio {
  const known = ratios.get(above) ?? new WeakMap<readonly number[], Ratio>();
  ratios.set(above, known);
  const ratio = known.get(below) ?? ratioInterval(above, below);
  known.set(below, ratio);
  return ratio;
}

/** Samples of an artifact, microseconds, without dropped ones (0). */
export function samplesOf(bytes: Uint8Array): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: Math.floor(bytes.byteLength / 4) }, (_, index) =>
    view.getFloat32(index * 4, true),
  ).filter((sample) => sample > 0);
}

/** The maximum of a resource over a build's entries. */
export function mostOf({ build }: VariantView, name: EntryFigureName): number | undefined {
  const entries = build?.entries ?? [];
  return entries.length === 0 ? undefined : Math.max(...entries.map(ENTRY_FIGURES[name].of));
}

export interface SourcePair {
  readonly pinned: Artifact | undefined;
  readonly shown: Artifact | undefined;
}

/** Source files of a build; the translation unit is the first. */
export const sourcesOf = ({ build }: VariantView): Artifact[] =>
  (build?.artifacts ?? []).filter(({ kind }) => kind === ArtifactKind.SOURCE);

/** Files that differ. Files are paired by name; the translation units are paired even if their names differ. */
export function changedSources({ pinned, shown }: Pick<PinnedComparison, 'pinned' | 'shown'>): SourcePair[] {
  const [pinnedUnit, ...pinnedRest] = sourcesOf(pinned.variant);
  const [shownUnit, ...shownRest] = sourcesOf(shown.variant);
  const paired = pinnedRest.map((file): SourcePair => ({
    pinned: file,
    shown: shownRest.find(({ fileName }) => fileName === file.fileName),
  }));
  const onlyShown = shownRest
    .filter(({ fileName }) => !pinnedRest.some((file) => file.fileName === fileName))
    .map((file): SourcePair => ({ pinned: undefined, shown: file }));
  return [{ pinned: pinnedUnit, shown: shownUnit }, ...paired, ...onlyShown].filter(
    (pair) => pair.pinned?.sha256 !== pair.shown?.sha256,
  );
}

/** The page that a comparison opens on. A job that failed was not timed, so what differs in the source comes first. */
export function firstPage(comparison: PinnedComparison): ComparePage {
  if (comparison.pairs.length > 0) return 'latency';
  return changedSources(comparison).length > 0 ? 'source' : 'figures';
}

/** The profile of the pinned job, if that is another job and profiled the same shape of the same problem. */
export function pinnedProfile(state: AppState): ProfileResult | undefined {
  const comparison = pinnedComparison(state);
  if (comparison === undefined || comparison.pinned.job === comparison.shown.job) return undefined;
  if (problemsDiffer(comparison) !== undefined) return undefined;
  const [before, now] = [comparison.pinned.variant.profile, comparison.shown.variant.profile];
  return before?.shape && now?.shape && formatShape(before.shape) === formatShape(now.shape) ? before : undefined;
}
