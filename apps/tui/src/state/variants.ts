/** Assigns events to variants, and merges live findings with the final result. */
import { allProbes, type CaseResult, type VariantResult } from '@flashcore/shared/contract';
import { withComparisonResult } from './live-comparison.ts';
import { shapeShort } from '../present/words.ts';
import { withBenchmarkResult } from './benchmarks.ts';
import { EMPTY_VARIANT, type JobView, type VariantView } from './job-view.ts';

type Change = (variant: VariantView) => VariantView;

/** Changes the variant with that label, or adds it, and makes it the current one (the last). */
export function withVariant(view: JobView, label: string, change: Change): JobView {
  // Events before the build belong to a variant whose label is not known yet.
  const known =
    view.variants.find((variant) => variant.label === label) ??
    (view.variants.length === 1 ? view.variants.find((variant) => variant.label === '') : undefined);
  // The second variant of a job is always the fallback.
  const variant =
    known !== undefined ? { ...known, label } : { ...EMPTY_VARIANT, label, fallback: view.variants.length > 0 };
  return { ...view, variants: [...view.variants.filter((other) => other !== known), change(variant)] };
}

/** Changes the variant of the running phase. `then` receives the job after the change. */
export function withCurrentVariant(
  view: JobView,
  change: Change,
  then: (view: JobView) => JobView = (next) => next,
): JobView {
  return then(withVariant(view, view.variants.at(-1)?.label ?? view.phases.at(-1)?.variant ?? '', change));
}

/**
 * Merges the final result into the live view. Variants are matched by label, or else by position. Fields that the
 * result lacks keep the values from the events.
 */
export function mergeVariants(live: readonly VariantView[], results: readonly VariantResult[]): VariantView[] {
  if (results.length === 0) return [...live];
  const byPlace = inOrder(live);
  return results.map((result, index) => {
    const seen =
      live.find(({ label }) => label === result.label) ??
      (byPlace.length === results.length ? byPlace[index] : undefined);
    return mergeVariant(seen ?? { ...EMPTY_VARIANT, label: result.label }, result);
  });
}

/**
 * The result's cases in the order in which they ended, so that rows stay in place when the job ends; cases that did not
 * run come last. The live cases if the result has none.
 */
export function inSeenOrder(live: readonly CaseResult[], cases: readonly CaseResult[]): readonly CaseResult[] {
  if (cases.length === 0) return live;
  const places = new Map(live.map(({ shape }, index) => [shapeShort(shape), index]));
  const placeOf = ({ shape }: CaseResult): number => places.get(shapeShort(shape)) ?? Infinity;
  return live.length === 0
    ? cases
    : cases.toSorted((a, b) => (placeOf(a) === placeOf(b) ? 0 : placeOf(a) - placeOf(b)));
}

const inOrder = (variants: readonly VariantView[]): VariantView[] =>
  [...variants].sort((a, b) => Number(a.fallback) - Number(b.fallback));

function mergeVariant(seen: VariantView, result: VariantResult): VariantView {
  return {
    ...seen,
    label: result.label,
    fallback: result.fallback,
    build: result.build ?? seen.build,
    diagnostics:
      result.build !== undefined && result.build.diagnostics.length > 0 ? result.build.diagnostics : seen.diagnostics,
    verify: result.verify ?? seen.verify,
    cases: inSeenOrder(seen.cases, result.verify?.cases ?? []),
    verifying: undefined,
    benchmarks: result.benchmarks.reduce(withBenchmarkResult, seen.benchmarks),
    comparison: result.comparison ? withComparisonResult(seen.comparison, result.comparison) : seen.comparison,
    profile: result.profile ?? seen.profile,
    profiling: undefined,
    gates: result.gates.length > 0 ? result.gates : seen.gates,
    findings: result.findings.length > 0 ? result.findings : seen.findings,
  };
}

/** The cases, followed by the probes, which are known only once the verification has ended. */
export const checkedOf = ({ cases, verify }: Pick<VariantView, 'cases' | 'verify'>): readonly CaseResult[] =>
  verify === undefined || allProbes(verify).length === 0 ? cases : [...cases, ...allProbes(verify)];
