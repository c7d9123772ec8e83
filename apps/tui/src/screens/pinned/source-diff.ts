/** Line-by-line difference of the sources of two jobs: "-" is from the pinned job, "+" from the shown one. */
import { structuredPatch } from 'diff';
import { entryOf } from '@flashcore/shared/text';
import { run, textRow, wrapRows, type Role, type Row } from '../../present/cells/row.ts';
import { cutCells } from '../../present/cells/cell-text.ts';
import type { AppState } from '../../state/app-state.ts';
import {
  changedSources,
  sourcesOf,
  type ComparedJob,
  type PinnedComparison,
  type SourcePair,
} from '../../state/pinned.ts';

const CONTEXT_LINES = 3;
const NUMBER_CELLS = 5;

export function sourceDiffRows({ sources }: AppState, comparison: PinnedComparison, width: number): Row[] {
  if (sourcesOf(comparison.pinned.variant).length === 0 || sourcesOf(comparison.shown.variant).length === 0) {
    return wrapRows('One of the two jobs has no sources: an older runner ran it, or it was never built.', width, {
      role: 'dim',
    });
  }
  const pairs = changedSources(comparison);
  if (pairs.length === 0)
    return wrapRows(`Both jobs compiled the same code${differencesText(comparison)}.`, width, { role: 'dim' });
  const { added, removed } = countLines(pairs, sources);
  return [
    [
      run(`${pairs.length} file${pairs.length === 1 ? '' : 's'} differ${pairs.length === 1 ? 's' : ''}  `, 'title'),
      run(`+${added} `, 'good'),
      run(`-${removed}`, 'bad'),
      run('   + the shown job   - the pinned job', 'dim'),
    ],
    ...pairs.flatMap((pair) => fileRows(pair, sources, width)),
  ];
}

/** The known differences between two jobs with the same sources. */
function differencesText({ pinned, shown }: PinnedComparison): string {
  const shapesOf = ({ benchmarks }: ComparedJob['variant']): string => benchmarks.map(({ key }) => key).join(' ');
  const buildDifference =
    pinned.variant.label === shown.variant.label
      ? 'flags, compiler or device'
      : `parameters (${pinned.variant.label} and ${shown.variant.label})`;
  const differences = [
    ...(pinned.variant.build?.buildId === shown.variant.build?.buildId ? [] : [buildDifference]),
    ...(shapesOf(pinned.variant) === shapesOf(shown.variant) ? [] : ['the shapes that were timed']),
  ];
  return differences.length === 0 ? ' into the same build' : `: they differ in ${differences.join(' and in ')}`;
}

function fileRows(pair: SourcePair, sources: AppState['sources'], width: number): Row[] {
  const names = [...new Set([pair.pinned?.fileName, pair.shown?.fileName].filter((name) => name !== undefined))];
  const title: Row = [run(`── ${names.join(' → ')}${onlyIn(pair)} `, 'accent')];
  const hunks = hunksOf(pair, sources);
  if (hunks === undefined) return [title, textRow('   is being read', 'dim')];
  return [
    title,
    ...hunks.flatMap((hunk): Row[] => [
      [run(`@@ line ${hunk.oldStart} pinned, ${hunk.newStart} shown`, 'dim')],
      ...hunkRows(hunk, width),
    ]),
  ];
}

function onlyIn({ pinned, shown }: SourcePair): string {
  if (pinned === undefined) return ', only in the shown job';
  return shown === undefined ? ', only in the pinned job' : '';
}

const LINE_ROLES: Record<string, Role> = { '+': 'good', '-': 'bad' };

function hunkRows({ newStart, oldStart, lines }: Hunk, width: number): Row[] {
  let [oldNumber, newNumber] = [oldStart, newStart];
  return lines
    .filter((line) => !line.startsWith('\\'))
    .map((line): Row => {
      const mark = line[0] ?? ' ';
      const number = mark === '-' ? oldNumber : newNumber;
      if (mark !== '+') oldNumber += 1;
      if (mark !== '-') newNumber += 1;
      return [
        run(`${String(number).padStart(NUMBER_CELLS)} `, 'dim'),
        run(
          cutCells(`${mark} ${line.slice(1).replaceAll('\t', '  ')}`, width - NUMBER_CELLS - 1),
          entryOf(LINE_ROLES, mark) ?? 'text',
        ),
      ];
    });
}

type Hunk = ReturnType<typeof structuredPatch>['hunks'][number];

// Digests fix the difference, so it is computed once rather than in every frame.
const known = new Map<string, Hunk[]>();

/** Undefined while a text is missing. */
function hunksOf({ pinned, shown }: SourcePair, sources: AppState['sources']): Hunk[] | undefined {
  const [before, after] = [pinned, shown].map((file) => (file === undefined ? '' : entryOf(sources, file.sha256)));
  if (before === undefined || after === undefined) return undefined;
  const key = `${pinned?.sha256 ?? ''}:${shown?.sha256 ?? ''}`;
  const hunks = known.get(key) ?? structuredPatch('', '', before, after, '', '', { context: CONTEXT_LINES }).hunks;
  known.set(key, hunks);
  return hunks;
}

function countLines(pairs: readonly SourcePair[], sources: AppState['sources']): { added: number; removed: number } {
  const lines = pairs.flatMap((pair) => hunksOf(pair, sources) ?? []).flatMap((hunk) => hunk.lines);
  return {
    added: lines.filter((line) => line.startsWith('+')).length,
    removed: lines.filter((line) => line.startsWith('-')).length,
  };
}
