/**
 * View 3 while comparing the shown job with the pinned one. Its pages: latencies with mirrored distributions, all
 * figures side by side, and the differences in the source.
 */
import { formatMicroseconds } from '../../present/numbers.ts';
import { cutCells } from '../../present/cells/cell-text.ts';
import { firstRows, fitRow, run, wrapRows, type Role, type Row } from '../../present/cells/row.ts';
import { blockRows } from '../../present/cells/cells-painter.ts';
import {
  PAIRED_ROLES,
  differText,
  figureBlocks,
  timeColumns,
  type FigureGroup,
} from '../../present/sections/paired.ts';
import { COMPARE_PAGES, type AppState, type ComparePage } from '../../state/app-state.ts';
import {
  pinnedComparison,
  changedSources,
  problemsDiffer,
  sourcesOf,
  type ComparedJob,
  type PinnedComparison,
  type LatencyPair,
} from '../../state/pinned.ts';
import { MODE_WORDS, jobTitle, outcomeWord, shapeShort, shortName } from '../../present/words.ts';
import { isBeingRead } from '../../state/job-view.ts';
import { attachedJob, variantsOf } from '../../state/selectors.ts';
import { JobState } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import { noteText } from '../../state/decision.ts';
import { LATENCY, estimatesText, figureGroups, missingOf, pairedTime, countsText } from '../../state/pinned-figures.ts';
import { histogramData } from '../../present/cells/histogram.ts';
import { upperList } from '../pane/list.ts';
import { sourceDiffRows } from './source-diff.ts';
import { SIMULATED_BADGE, positionRemark, scrolled, type PaneContent, type Size } from '../pane/view.ts';
import { twoDistributions } from '../distribution/distribution.ts';

const PAGE_WORDS: Record<ComparePage, string> = { latency: 'latency', figures: 'figures', source: 'source' };

const SIDES = { before: 'pinned', after: 'shown' };

/** Why there is nothing to compare: which of the two jobs has no results, and whether it may still get some. */
function missingSideText(state: AppState): string {
  const pinned = state.ui.pinned === undefined ? undefined : entryOf(state.views, state.ui.pinned);
  const isPinned = variantsOf(pinned).length === 0;
  const job = isPinned ? pinned : attachedJob(state);
  const which = isPinned ? 'pinned' : 'shown';
  if (job === undefined || isBeingRead(job)) return `The ${which} job is still being read.`;
  if (job.state !== JobState.ENDED) return `The ${which} job has no results yet.`;
  return `The ${which} job (${jobTitle(job)}, ${outcomeWord(job)}) has no results to compare.`;
}

export function comparePane(state: AppState, size: Size): PaneContent {
  const title = `3 Latency  against the pinned job  ${COMPARE_PAGES.map((page) => (page === state.ui.comparePage ? `[${PAGE_WORDS[page]}]` : PAGE_WORDS[page])).join(' ')}`;
  const comparison = pinnedComparison(state);
  if (comparison === undefined)
    return {
      title,
      body: wrapRows(`${missingSideText(state)} b pins another job, c stops comparing.`, size.width, { role: 'dim' }),
    };
  const simulated = comparison.pairs.some(({ pinned, shown }) => pinned.simulated || shown.simulated);
  const head = sideRows(state, comparison, size.width);
  const rest = { width: size.width, height: size.height - head.length };
  const page = { latency: latencyPage, figures: figuresPage, source: sourcePage }[state.ui.comparePage](
    state,
    comparison,
    rest,
  );
  return {
    title,
    ...(simulated && { badge: SIMULATED_BADGE }),
    ...(page.remark !== undefined && { remark: page.remark }),
    body: [...head, ...page.body].slice(0, size.height),
  };
}

type Page = Pick<PaneContent, 'remark' | 'body'>;

/** All rows of a page that scrolls; undefined for the page with a cursor. */
export function comparePageRows(state: AppState, { width }: Pick<Size, 'width'>): Row[] | undefined {
  const comparison = pinnedComparison(state);
  if (comparison === undefined || state.ui.comparePage === 'latency') return undefined;
  return state.ui.comparePage === 'figures' ? figureRows(comparison, width) : sourceDiffRows(state, comparison, width);
}

const MARK_CELLS = 'pinned '.length;

/** The number of rows above the pages; 0 if there is no comparison. */
export function compareHeadRows(state: AppState, { width }: Pick<Size, 'width'>): number {
  const comparison = pinnedComparison(state);
  return comparison === undefined ? 0 : sideRows(state, comparison, width).length;
}

/** The two compared jobs, with the notes of those who decided about them. */
function sideRows(
  state: AppState,
  { pinned, shown }: Pick<PinnedComparison, 'pinned' | 'shown'>,
  width: number,
): Row[] {
  const remark = sameText({ pinned, shown });
  const noteOf = ({ job }: ComparedJob): Row[] => {
    const note = noteText(state, job.name);
    return note === ''
      ? []
      : [fitRow([run(' '.repeat(MARK_CELLS)), run(cutCells(note, width - MARK_CELLS), 'dim')], width)];
  };
  const side = (mark: string, role: Role, { job }: ComparedJob): Row => {
    const source = job.provenance === undefined ? '' : `  source ${job.provenance.sourceDigest.slice(0, 10)}${remark}`;
    const tail = `  ${shortName(job.name)}${source}`;
    return fitRow(
      [
        run(mark.padEnd(MARK_CELLS), role),
        run(cutCells(jobTitle(job), Math.max(12, width - MARK_CELLS - tail.length)), 'title'),
        run(tail, 'dim'),
      ],
      width,
    );
  };
  const differ = problemsDiffer({ pinned, shown });
  return [
    side('pinned', 'barAlternative', pinned),
    ...noteOf(pinned),
    side('shown', 'bar', shown),
    ...noteOf(shown),
    ...(differ === undefined ? [] : wrapRows(`⚠ ${differText(differ)}`, width, { role: 'warn', hang: 2 })),
    [run('─'.repeat(width), 'border')],
  ];
}

/** Whether the two jobs have the same sources. The digest is the whole folder's; not every file in it is compiled. */
function sameText({ pinned, shown }: Pick<PinnedComparison, 'pinned' | 'shown'>): string {
  const [before, after] = [pinned, shown].map(({ job: { provenance } }) => provenance?.sourceDigest);
  if (before === undefined || after === undefined) return '';
  if (before === after) return ', the same';
  const compiled = sourcesOf(pinned.variant).length > 0 && sourcesOf(shown.variant).length > 0;
  return compiled && changedSources({ pinned, shown }).length === 0 ? ', same code' : '';
}

/** The figures, indented under the titles of their groups. */
const figureRows = (comparison: PinnedComparison, width: number): Row[] =>
  indentedFigures(figureGroups(comparison), width);

const indentedFigures = (groups: readonly FigureGroup[], width: number): Row[] =>
  figureBlocks(groups, SIDES).flatMap((block) =>
    block.kind === 'heading'
      ? blockRows([block], width)
      : blockRows([block], width - 2).map((row): Row => [run('  '), ...row]),
  );

const figuresPage = (state: AppState, comparison: PinnedComparison, { width, height }: Size): Page =>
  scrolled('', figureRows(comparison, width), { width, height, top: state.ui.selected.latency });
const sourcePage = (state: AppState, comparison: PinnedComparison, { width, height }: Size): Page =>
  scrolled('', sourceDiffRows(state, comparison, width), { width, height, top: state.ui.selected.latency });

/** Emulator times decide nothing, so what the counts say comes first. */
function latencyPage(state: AppState, comparison: PinnedComparison, { width, height }: Size): Page {
  const isTimed = comparison.pairs.some(({ pinned, shown }) => !pinned.simulated && !shown.simulated);
  const text = isTimed ? '' : countsText(comparison);
  const counts = text === '' ? [] : wrapRows(text, width, { role: 'title', hang: 2 });
  const page = timesPage(state, comparison, { width, height: height - counts.length });
  return { ...page, body: [...counts, ...page.body] };
}

function timesPage(state: AppState, comparison: PinnedComparison, { width, height }: Size): Page {
  const { pairs } = comparison;
  if (pairs.length === 0)
    return {
      body: [
        ...wrapRows(`${untimedText(comparison)} d shows the other differences.`, width, { role: 'dim' }),
        ...estimateRows(comparison, width),
      ],
    };
  const selected = Math.min(state.ui.selected.latency, pairs.length - 1);
  const rows = upperList(timeColumns(SIDES), pairs.map(pairedTime), {
    width,
    height,
    share: 0.4,
    selected,
    focused: state.ui.view === 'latency',
  });
  const chosen = pairs[selected];
  const simulated = chosen !== undefined && (chosen.pinned.simulated || chosen.shown.simulated);
  const estimated = simulated ? estimateRows(comparison, width) : [];
  const room = height - rows.length - 2 - estimated.length;
  const below = (pair: LatencyPair, rest: Size): readonly Row[] =>
    simulated ? comparableRows(comparison, rest) : distributions(pair, rest);
  return {
    remark: `${positionRemark(selected, pairs.length, 'measurement')}, d: figures, source`,
    body: [
      ...rows,
      [run('─'.repeat(width), 'border')],
      ...(chosen === undefined
        ? []
        : [verdictRow(chosen), ...estimated, ...(room < 5 ? [] : below(chosen, { width, height: room }))]),
    ],
  };
}

/** The estimates of both jobs, which stand in for GPU times. */
function estimateRows(comparison: PinnedComparison, width: number): Row[] {
  const text = estimatesText(comparison);
  return text === '' ? [] : wrapRows(text, width, { hang: 2 });
}

/** Figures that do compare, for two jobs whose times do not. */
function comparableRows(comparison: PinnedComparison, { width, height }: Size): readonly Row[] {
  const groups = figureGroups(comparison).filter(({ figures, notCompared }) => figures.length > 0 && !notCompared);
  return firstRows(
    indentedFigures(
      groups.filter(({ title }) => title !== LATENCY),
      width,
    ),
    height,
    width,
  );
}

/** Why the two jobs have no times to compare. */
function untimedText(comparison: PinnedComparison): string {
  switch (missingOf(comparison, 'times')) {
    case 'both':
      return 'Neither job was timed.';
    case 'before':
      return 'The pinned job was not timed.';
    case 'after':
      return 'The shown job was not timed.';
    case 'common':
      return 'The two jobs timed different shapes.';
  }
}

/** The verdict in one line, above the curves. */
function verdictRow({ pinned, ratio, verdict, notCompared = '' }: LatencyPair): Row {
  const what = run(`${shapeShort(pinned.shape)} ${MODE_WORDS[pinned.mode]}  `, 'dim');
  if (ratio === undefined || verdict === undefined) return [what, run(`not compared: ${notCompared}`, 'dim')];
  const share = (value: number): string => `${value > 1 ? '+' : ''}${((value - 1) * 100).toFixed(1)} %`;
  return [
    what,
    run(verdict === 'no difference shown' ? 'no difference shown' : `shown is ${verdict}`, PAIRED_ROLES[verdict]),
    run(`  speed ${share(ratio.ratio)} [${share(ratio.low)}, ${share(ratio.high)}] at 95 %`),
  ];
}

/** The shown job's distribution above the axis, the pinned job's below. */
function distributions({ pinned, shown }: LatencyPair, size: Size): Row[] {
  const [upper, lower] = [histogramData(shown.histogram), histogramData(pinned.histogram)];
  if (upper === undefined || lower === undefined) return [[run('no histogram of both', 'dim')]];
  const medians = [shown.latency?.p50Us ?? 0, pinned.latency?.p50Us ?? 0] as const;
  return [
    fitRow(
      [
        run('█ ', 'bar'),
        run(`above: shown, p50 ${formatMicroseconds(medians[0])}`, 'dim'),
        run('   █ ', 'barAlternative'),
        run(`below: pinned, p50 ${formatMicroseconds(medians[1])}`, 'dim'),
      ],
      size.width,
    ),
    ...twoDistributions({ upper, lower, medians, names: ['shown', 'pinned'] }, { ...size, height: size.height - 1 }),
  ];
}
