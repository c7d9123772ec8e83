/** Line-by-line differences of the sources of two jobs. */
import { structuredPatch } from 'diff';
import { entryOf } from '@flashcore/shared/text';
import type { AppState } from './app-state.ts';
import { changedSources, sourcesOf, type ComparedJob, type PinnedComparison, type SourcePair } from './pinned.ts';

const CONTEXT_LINES = 3;

export type Hunk = ReturnType<typeof structuredPatch>['hunks'][number];

export interface ChangedFile {
  /** Two names if the file has different names in the two jobs. */
  readonly names: readonly string[];
  readonly onlyIn?: 'pinned' | 'shown' | undefined;
  /** Undefined until both texts have been read. */
  readonly hunks: readonly Hunk[] | undefined;
}

/** The files that differ; a text if there is nothing to compare or if nothing differs. */
export function sourceChanges(
  { sources }: Pick<AppState, 'sources'>,
  comparison: PinnedComparison,
): ChangedFile[] | string {
  if (sourcesOf(comparison.pinned.variant).length === 0 || sourcesOf(comparison.shown.variant).length === 0)
    return 'One of the two jobs has no sources: an older runner ran it, or it was never built.';
  const pairs = changedSources(comparison);
  if (pairs.length === 0) return `Both jobs compiled the same code${differencesText(comparison)}.`;
  return pairs.map((pair) => ({
    names: [...new Set([pair.pinned?.fileName, pair.shown?.fileName].filter((name) => name !== undefined))],
    onlyIn: onlyIn(pair),
    hunks: hunksOf(pair, sources),
  }));
}

function onlyIn({ pinned, shown }: SourcePair): ChangedFile['onlyIn'] {
  if (pinned === undefined) return 'shown';
  return shown === undefined ? 'pinned' : undefined;
}

/** Says how two jobs with the same sources differ. */
function differencesText({ pinned, shown }: PinnedComparison): string {
  const shapesOf = ({ benchmarks }: ComparedJob['variant']): string => benchmarks.map(({ key }) => key).join(' ');
  const differences = [
    ...buildDifferences(pinned, shown),
    ...(shapesOf(pinned.variant) === shapesOf(shown.variant) ? [] : ['the shapes that were timed']),
  ];
  return differences.length === 0 ? ' into the same build' : `: they differ in ${differences.join(' and in ')}`;
}

/**
 * Differences between two builds of the same sources. A build is identified by its whole folder, so an edit of NOTES.md
 * makes another build of the same code.
 */
function buildDifferences(pinned: ComparedJob, shown: ComparedJob): string[] {
  if (pinned.variant.build?.buildId === shown.variant.build?.buildId) return [];
  const differences = BUILD_FACTS.flatMap(([name, of]) => {
    const [was, is] = [of(pinned), of(shown)];
    return was === is ? [] : [`${name} (${was} and ${is})`];
  });
  if (differences.length > 0) return differences;
  const argumentsOf = ({ variant: { build } }: ComparedJob): string =>
    JSON.stringify((build?.runs ?? []).map((compilation) => compilation.arguments));
  return argumentsOf(pinned) === argumentsOf(shown)
    ? ['files that are not compiled, such as kernel.yaml or NOTES.md']
    : ["the compiler's flags"];
}

/** Inputs of a build besides sources and flags. Parameters and targets are absent, because they become flags. */
const BUILD_FACTS: readonly (readonly [name: string, of: (job: ComparedJob) => string])[] = [
  ['parameters', ({ variant }) => variant.label],
  ['target', ({ variant: { build } }) => build?.arch ?? ''],
  [
    'compiler',
    ({ variant: { build } }) => (build?.runs ?? []).map(({ compiler, version }) => `${compiler} ${version}`).join(', '),
  ],
];

// The digests determine the difference, so it is computed once rather than in every frame.
const known = new Map<string, Hunk[]>();

/** Undefined until both texts have been read. */
function hunksOf({ pinned, shown }: SourcePair, sources: AppState['sources']): Hunk[] | undefined {
  const [before, after] = [pinned, shown].map((file) => (file === undefined ? '' : entryOf(sources, file.sha256)));
  if (before === undefined || after === undefined) return undefined;
  const key = `${pinned?.sha256 ?? ''}:${shown?.sha256 ?? ''}`;
  const hunks = known.get(key) ?? structuredPatch('', '', before, after, '', '', { context: CONTEXT_LINES }).hunks;
  known.set(key, hunks);
  return hunks;
}

export function countLines(files: readonly ChangedFile[]): { added: number; removed: number } {
  const lines = files.flatMap(({ hunks }) => hunks ?? []).flatMap((hunk) => hunk.lines);
  return {
    added: lines.filter((line) => line.startsWith('+')).length,
    removed: lines.filter((line) => line.startsWith('-')).length,
  };
}
