/**
 * The place in the source that a job points to: in view 4 the hottest line; in other views its first error, or else the
 * place of a finding or warning, or else the translation unit.
 */
import {
  type Artifact,
  FindingKind,
  type Finding,
  type InstructionListing,
  type InstructionListingFile,
} from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import type { AppState } from './app-state.ts';
import { jobInHand } from './chosen.ts';
import { sourcesOf } from './pinned.ts';
import type { VariantView } from './job-view.ts';
import { hotBy, hottestLine, shownLines, type HotBy } from '../present/sections/lines.ts';
import { attachedJob, hasLines, selectedKernel, shownVariant, variantsOf } from './selectors.ts';

export interface SourceTarget {
  /** File name as in the kernel folder; undefined if the manifest names the translation unit. */
  readonly file?: string | undefined;
  /** Line from 1; 0 if unknown. */
  readonly line: number;
  readonly column: number;
  readonly kernelId: string;
  /**
   * Folders on this machine that may contain the kernel, the likeliest first. The runner's own folders are tried after
   * them.
   */
  readonly folders: readonly string[];
  /** Those of the folders that came with the installation, whose files are only to be read. */
  readonly examples?: readonly string[];
  /** The source as it was compiled, if the runner kept it. */
  readonly compiled?: Artifact | undefined;
  /** Name of the job that compiled it. */
  readonly job?: string | undefined;
}

/** The source to open: that of the kernel under the cursor of view 7, or else of the job that keys act on. */
export function sourceTarget(state: AppState): SourceTarget | undefined {
  if (state.ui.view === 'kernels' && !state.ui.inRail) {
    const kernel = selectedKernel(state);
    if (kernel === undefined) return undefined;
    const { kernelId, folder, isExample = false, manifestError = '' } = kernel;
    // A manifest's own mistake has a line; one in a file that it names has that file and line.
    const mistake = parsePlace(manifestError);
    return {
      kernelId,
      folders: folder === undefined ? [] : [folder],
      ...(isExample && folder !== undefined && { examples: [folder] }),
      ...(mistake && { file: mistake.file.replace(/^.*\//, '') }),
      line: mistake?.line ?? 0,
      column: mistake?.column ?? 0,
    };
  }
  const job = jobInHand(state);
  if (job === undefined || job.kernelId === '') return undefined;
  const isShown = job.name === state.attached;
  const variant = isShown ? shownVariant(state) : variantsOf(entryOf(state.views, job.name))[0];
  const chosen = isShown ? (profiledLine(state) ?? chosenPlace(state)) : undefined;
  const place = variant && (chosen ?? placeIn(variant));
  const sources = variant === undefined ? [] : sourcesOf(variant);
  const compiled = place === undefined ? sources[0] : sources.find(({ fileName }) => fileName === place.file);
  const known = state.kernels.filter(({ kernelId }) => kernelId === job.kernelId);
  const foldersOf = (kernels: typeof known): string[] => kernels.flatMap(({ folder }) => folder ?? []);
  return {
    kernelId: job.kernelId,
    folders: [...(state.watching === undefined ? [] : [state.watching.folder]), ...foldersOf(known)],
    examples: foldersOf(known.filter(({ isExample }) => isExample)),
    file: place?.file ?? compiled?.fileName,
    line: place?.line ?? 0,
    column: place?.column ?? 0,
    compiled,
    job: job.name,
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
 * The finding that the user chose in the shown variant, by default the worst. If that variant has no finding, one of
 * another variant.
 */
export function shownFinding(state: AppState): ShownFinding | undefined {
  const variants = [shownVariant(state), ...variantsOf(attachedJob(state))];
  const variant = variants.find((candidate) => (candidate?.findings.length ?? 0) > 0);
  const findings = variant?.findings.flatMap((finding) => withAllErrors(finding, variant)) ?? [];
  const count = findings.length;
  const place = Math.min(state.ui.finding, count - 1);
  const finding = findings[place];
  return variant === undefined || finding === undefined ? undefined : { finding, variant, place, count };
}

/**
 * The one finding that a kernel does not compile, as a finding for each error, with the error's own source. The frame
 * of a compiler's message is preferred, because it also has the column.
 */
function withAllErrors(finding: Finding, { diagnostics }: Pick<VariantView, 'diagnostics'>): Finding[] {
  if (finding.kind !== FindingKind.COMPILE_FAILED) return [finding];
  const errors = diagnostics.filter(({ severity, frame }) => severity === 'error' && frame !== undefined);
  // Two compilers may report the same error.
  const [first, ...others] = [...new Map(errors.toReversed().map((error) => [`${error.file}:${error.line}`, error]))]
    .map(([, error]) => error)
    .toReversed();
  return [
    first === undefined ? finding : { ...finding, frame: first.frame },
    ...others.map(({ file, line, column, message, tool, frame }) => ({
      ...finding,
      message: `${file}:${line}${column > 0 ? `:${column}` : ''}: ${message} (${tool})`,
      frame,
    })),
  ];
}

/**
 * In view 4, the source line that is next to its instructions or, without instructions, the hottest line, which the
 * view marks.
 */
function profiledLine(state: AppState): Place | undefined {
  const profile = shownVariant(state)?.profile;
  if (profile === undefined || !hasLines(state)) return undefined;
  const chosen = openListing(state) === undefined ? undefined : state.ui.listedPlace;
  const place =
    chosen ??
    hottestLine(
      shownLines(profile).flatMap(({ lines }) => lines),
      hotBy(profile, state.ui.lineSort),
    )?.line;
  return place && { file: place.file, line: place.line, column: 0 };
}

/** The figure that decides which line view 4 marks as the hottest. */
export function hotFigure(state: AppState): HotBy {
  const profile = shownVariant(state)?.profile;
  return profile === undefined ? 'instructions' : hotBy(profile, state.ui.lineSort);
}

/** The place of the finding that the user moved to. */
function chosenPlace(state: AppState): Place | undefined {
  const shown = state.ui.finding > 0 ? shownFinding(state) : undefined;
  const frame = shown?.finding.frame;
  if (frame === undefined) return undefined;
  // The frame's column counts a tab as two spaces, and an editor as one character.
  const named = parsePlace(shown?.finding.message ?? '');
  return { file: frame.file, line: frame.line, column: named?.line === frame.line ? named.column : 0 };
}

function placeIn({ diagnostics, findings }: VariantView): Place | undefined {
  const located = diagnostics.filter(({ file, line }) => file !== '' && line > 0);
  return (
    located.find(({ severity }) => severity === 'error') ??
    findings
      .flatMap(({ threads }) => threads)
      .map(({ place }) => parsePlace(place))
      .find((place) => place !== undefined) ??
    findings.map(({ frame }) => frame).find((frame) => frame !== undefined) ??
    located[0]
  );
}

/** Parses the place of a thread as findings write it: "flashcore_v6.cu:87" or "flashcore_v6.cu:87:9". */
export function parsePlace(text: string): Place | undefined {
  const [, file, line, column] = /([^\s:()]+):(\d+)(?::(\d+))?/.exec(text) ?? [];
  return file === undefined ? undefined : { file, line: Number(line), column: Number(column ?? 0) };
}

/** The listing of instructions that view 4 shows next to the source. */
export interface OpenListing {
  readonly file: InstructionListingFile;
  /** Undefined while the listing is being read, and if there is none. */
  readonly listing: InstructionListing | undefined;
  /** The reason why there is no listing. */
  readonly missing: string | undefined;
}

/** Listings of the variant in view 4, whether they exist or not. */
export const listingFiles = (state: AppState): readonly InstructionListingFile[] =>
  state.ui.view === 'profile' ? (shownVariant(state)?.profile?.listings ?? []) : [];

/** The listing in view 4; undefined if view 4 shows the profile, or if another view is on the screen. */
export function openListing(state: AppState): OpenListing | undefined {
  const files = listingFiles(state);
  const file = state.ui.listing === undefined ? undefined : files[state.ui.listing % files.length];
  if (file === undefined) return undefined;
  const read = file.file && entryOf(state.listings, file.file.sha256);
  return {
    file,
    listing: read === 'unreadable' ? undefined : read,
    missing: read === 'unreadable' ? 'the runner did not send the file' : file.missing,
  };
}
