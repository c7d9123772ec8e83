/**
 * The job on the screen (B) against the pinned job (A), as the runner names the two sides of
 * its own comparison: latency of the shapes that both measured, and what their builds need.
 */
import { ArtifactKind, type Artifact, type EntryResources } from '@flashcore/shared/contract';
import { ratioInterval } from '@flashcore/shared/statistics';
import type { AppState } from './app-state.ts';
import type { BenchmarkView, JobView, VariantView } from './job-view.ts';
import { attachedJob, shownVariant, variantsOf } from './selectors.ts';

export type PinnedVerdict = 'faster' | 'slower' | 'no difference shown';

export interface LatencyPair {
  readonly a: BenchmarkView;
  readonly b: BenchmarkView;
  /** median(A) / median(B): above 1, B is faster. */
  readonly ratio?: { readonly ratio: number; readonly low: number; readonly high: number } | undefined;
  readonly verdict?: PinnedVerdict | undefined;
  /** Why there is no ratio. */
  readonly notCompared?: string | undefined;
}

export interface PinnedComparison {
  readonly a: { readonly job: JobView; readonly variant: VariantView };
  readonly b: { readonly job: JobView; readonly variant: VariantView };
  readonly pairs: readonly LatencyPair[];
}

/** Undefined while one of the two is missing. */
export function pinnedComparison(state: AppState): PinnedComparison | undefined {
  const jobA = state.ui.pinned === undefined ? undefined : state.views[state.ui.pinned];
  const jobB = attachedJob(state);
  const a = variantsOf(jobA)[0];
  const b = shownVariant(state);
  if (jobA === undefined || jobB === undefined || a === undefined || b === undefined) return undefined;
  const pairs = b.benchmarks.flatMap((own) => {
    const other = a.benchmarks.find(({ key }) => key === own.key);
    return other === undefined || own.subject !== 'candidate' ? [] : [pairOf(state, [jobA, other], [jobB, own])];
  });
  return { a: { job: jobA, variant: a }, b: { job: jobB, variant: b }, pairs };
}

function pairOf(
  { samples }: AppState,
  [jobA, a]: [JobView, BenchmarkView],
  [jobB, b]: [JobView, BenchmarkView],
): LatencyPair {
  if (a.simulated || b.simulated) return { a, b, notCompared: 'simulated, not GPU times' };
  if (jobA.device?.name !== jobB.device?.name)
    return { a, b, notCompared: `other device: ${jobA.device?.name ?? 'unknown'}` };
  const [samplesA, samplesB] = [a, b].map(({ result }) => samples[result?.samples?.sha256 ?? '']);
  if (samplesA === undefined || samplesB === undefined) return { a, b, notCompared: 'its samples are not here' };
  if (samplesA.length < 2 || samplesB.length < 2) return { a, b, notCompared: 'fewer than two samples' };
  const ratio = ratioOf(samplesA, samplesB);
  return { a, b, ratio, verdict: verdictOf(ratio) };
}

type Ratio = ReturnType<typeof ratioInterval>;

function verdictOf({ low, high }: Ratio): PinnedVerdict {
  if (low > 1) return 'faster';
  return high < 1 ? 'slower' : 'no difference shown';
}

// 4,000 resamples of a pair that never changes: once, not once a frame.
const ratios = new WeakMap<readonly number[], WeakMap<readonly number[], Ratio>>();

function ratioOf(above: readonly number[], below: readonly number[]): Ratio {
  const known = ratios.get(above) ?? new WeakMap<readonly number[], Ratio>();
  ratios.set(above, known);
  const ratio = known.get(below) ?? ratioInterval(above, below);
  known.set(below, ratio);
  return ratio;
}

/** Samples of an artifact, microseconds; those marked as dropped (0) are left out. */
export function samplesOf(bytes: Uint8Array): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: Math.floor(bytes.byteLength / 4) }, (_, index) =>
    view.getFloat32(index * 4, true),
  ).filter((sample) => sample > 0);
}

/** The most that any entry of a build needs. */
export function mostOf(variant: VariantView, need: (entry: EntryResources) => number): number | undefined {
  const entries = variant.build?.entries ?? [];
  return entries.length === 0 ? undefined : Math.max(...entries.map(need));
}

export interface SourcePair {
  readonly a: Artifact | undefined;
  readonly b: Artifact | undefined;
}

/** Source files of a build; the translation unit is the first. */
export const sourcesOf = ({ build }: VariantView): Artifact[] =>
  (build?.artifacts ?? []).filter(({ kind }) => kind === ArtifactKind.SOURCE);

/** Files that differ: paired by name, the translation units with each other whatever they are called. */
export function changedSources({ a, b }: Pick<PinnedComparison, 'a' | 'b'>): SourcePair[] {
  const [unitA, ...restA] = sourcesOf(a.variant);
  const [unitB, ...restB] = sourcesOf(b.variant);
  const paired = restA.map((file): SourcePair => ({
    a: file,
    b: restB.find(({ fileName }) => fileName === file.fileName),
  }));
  const onlyB = restB
    .filter(({ fileName }) => !restA.some((file) => file.fileName === fileName))
    .map((file): SourcePair => ({ a: undefined, b: file }));
  return [{ a: unitA, b: unitB }, ...paired, ...onlyB].filter((pair) => pair.a?.sha256 !== pair.b?.sha256);
}
