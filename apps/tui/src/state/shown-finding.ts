/** The finding shown for the job on the screen. */
import { FindingKind, type CodeFrame, type Finding } from '@flashcore/shared/contract';
import type { AppState } from './app-state.ts';
import type { VariantView } from './job-view.ts';
import { attachedJob, shownVariant, variantsOf } from './selectors.ts';

export interface ShownFinding {
  readonly finding: Finding;
  readonly variant: VariantView;
  readonly place: number;
  readonly count: number;
}

/**
 * The chosen finding, initially the worst, of the variant shown. If that variant has none, a finding of another
 * variant.
 */
export function shownFinding(state: AppState): ShownFinding | undefined {
  const variants = [shownVariant(state), ...variantsOf(attachedJob(state))];
  const variant = variants.find((candidate) => (candidate?.findings.length ?? 0) > 0);
  const count = variant?.findings.length ?? 0;
  const place = Math.min(state.ui.finding, count - 1);
  const finding = variant?.findings[place];
  return variant === undefined || finding === undefined ? undefined : { finding, variant, place, count };
}

/** The source at the finding; if the kernel does not compile, the source at the first error. */
export function frameOf({ finding, variant }: Pick<ShownFinding, 'finding' | 'variant'>): CodeFrame | undefined {
  const isCompile = finding.kind === FindingKind.COMPILE_FAILED;
  // A compiler's message also has the column.
  const told = isCompile ? variant.diagnostics.find(({ severity }) => severity === 'error')?.frame : undefined;
  return told ?? finding.frame;
}
