/**
 * Where in the source a job points: its first error, else what a finding or a warning names, else the translation unit.
 */
import type { Artifact } from '@flashcore/shared/contract';
import type { AppState } from './app-state.ts';
import { sourcesOf } from './pinned.ts';
import type { VariantView } from './job-view.ts';
import { attachedJob, selectedKernel, shownVariant } from './selectors.ts';

export interface SourceTarget {
  /** As the kernel folder names it; undefined: the kernel's manifest names its translation unit. */
  readonly file?: string | undefined;
  /** From 1; 0: none is known. */
  readonly line: number;
  readonly column: number;
  readonly kernelId: string;
  /** The source as it was compiled, where the runner kept it. */
  readonly compiled?: Artifact | undefined;
}

/** In view 7 the kernel under the cursor, elsewhere the job shown. */
export function sourceTarget(state: AppState): SourceTarget | undefined {
  if (state.ui.view === 'kernels') {
    const kernel = selectedKernel(state);
    return kernel === undefined ? undefined : { kernelId: kernel.kernelId, line: 0, column: 0 };
  }
  const job = attachedJob(state);
  if (job === undefined || job.kernelId === '') return undefined;
  const variant = shownVariant(state);
  const place = variant === undefined ? undefined : placeIn(variant);
  const sources = variant === undefined ? [] : sourcesOf(variant);
  const compiled = place === undefined ? sources[0] : sources.find(({ fileName }) => fileName === place.file);
  return {
    kernelId: job.kernelId,
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

/** "flashcore_v6.cu:87" or "flashcore_v6.cu:87:9", as findings name the place of a thread. */
export function parsePlace(text: string): Place | undefined {
  const [, file, line, column] = /([^\s:()]+):(\d+)(?::(\d+))?/.exec(text) ?? [];
  return file === undefined ? undefined : { file, line: Number(line), column: Number(column ?? 0) };
}
