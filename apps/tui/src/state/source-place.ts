/**
 * The place in the source that a job points to: its first error, else a finding's or a warning's place, else the
 * translation unit.
 */
import { type Artifact, FindingKind, type CodeFrame, type Finding } from '@flashcore/shared/contract';
import type { AppState } from './app-state.ts';
import { sourcesOf } from './pinned.ts';
import type { VariantView } from './job-view.ts';
import { attachedJob, selectedKernel, shownVariant, variantsOf } from './selectors.ts';

export interface SourceTarget {
  /** File name as in the kernel folder; undefined if the manifest names the translation unit. */
  readonly file?: string | undefined;
  /** Line from 1; 0 if unknown. */
  readonly line: number;
  readonly column: number;
  readonly kernelId: string;
  /**
   * Folders of this machine that may contain the kernel, the likeliest first; the runner's own folders come after them.
   */
  readonly folders: readonly string[];
  /** The source as it was compiled, if the runner kept it. */
  readonly compiled?: Artifact | undefined;
}

/** The kernel under the cursor in view 7; in other views, the job shown. */
export function sourceTarget(state: AppState): SourceTarget | undefined {
  if (state.ui.view === 'kernels') {
    const kernel = selectedKernel(state);
    if (kernel === undefined) return undefined;
    const { kernelId, folder } = kernel;
    return { kernelId, folders: folder === undefined ? [] : [folder], line: 0, column: 0 };
  }
  const job = attachedJob(state);
  if (job === undefined || job.kernelId === '') return undefined;
  const variant = shownVariant(state);
  const place = variant === undefined ? undefined : (chosenPlace(state) ?? placeIn(variant));
  const sources = variant === undefined ? [] : sourcesOf(variant);
  const compiled = place === undefined ? sources[0] : sources.find(({ fileName }) => fileName === place.file);
  return {
    kernelId: job.kernelId,
    folders: [
      state.watching?.folder,
      ...state.kernels.filter(({ kernelId }) => kernelId === job.kernelId).map(({ folder }) => folder),
    ].filter((folder) => folder !== undefined),
    file: place?.file ?? compiled?.fileName,
    line: place?.line ?? 0,
    column: place?.column ?? 0,
    compiled,
  };
}

interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** The finding shown for the job on the screen. */
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

/** The place of the finding that the user moved to. */
function chosenPlace(state: AppState): Place | undefined {
  const shown = state.ui.finding > 0 ? shownFinding(state) : undefined;
  const frame = shown && frameOf(shown);
  return frame && { file: frame.file, line: frame.line, column: 0 };
}

function placeIn({ diagnostics, findings }: VariantView): Place | undefined {
  const located = diagnostics.filter(({ file, line }) => file !== '' && line > 0);
  return (
    located.find(({ severity }) => severity === 'error') ??
    findings
      .flatMap(({ threads }) => threads)
      .map(({ place }) => parsePlace(place))
      .find((place) => place !== undefined) ??
    located[0]
  );
}

/** Parses the place of a thread as findings write it: "flashcore_v6.cu:87" or "flashcore_v6.cu:87:9". */
export function parsePlace(text: string): Place | undefined {
  const [, file, line, column] = /([^\s:()]+):(\d+)(?::(\d+))?/.exec(text) ?? [];
  return file === undefined ? undefined : { file, line: Number(line), column: Number(column ?? 0) };
}
