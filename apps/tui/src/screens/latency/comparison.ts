/**
 * Candidate and champion, measured by the runner in alternating blocks: a line per shape, the verdict, and both
 * distributions. Live until the result arrives.
 */
import { flowRows, labelled, run, wrapRows, type Row } from '../../present/cells/row.ts';
import type { ShapeComparisonView, ComparisonView } from '../../state/live-comparison.ts';
import { COMPARISON_MARKS, MODE_WORDS, comparisonAnswer, caseText } from '../../present/words.ts';
import { histogramData } from '../../present/cells/histogram.ts';
import type { Size } from '../pane/view.ts';
import { intervalText, pairsText } from '../../present/sections/comparison.ts';
import { twoDistributions } from '../distribution/distribution.ts';

/** The two builds, and the verdict over all shapes. */
export function comparisonHead({ result, shapes }: ComparisonView, width: number): Row[] {
  if (result === undefined)
    return [
      [
        run('The candidate against its champion', 'title'),
        run(
          `  ${shapes.filter((shape) => shape.result !== undefined).length} of ${shapes.length} shapes so far`,
          'accent',
        ),
      ],
    ];
  const { mark, role } = COMPARISON_MARKS[result.verdict];
  return [
    ...wrapRows(
      `${result.candidate?.label ?? 'The candidate'} against its champion ${result.champion?.label ?? ''}`.trimEnd(),
      width,
      { role: 'title', hang: 2 },
    ),
    ...wrapRows(`${mark} ${comparisonAnswer(result)}`, width, { role, hang: 2 }).slice(0, 3),
  ];
}

const MOST_ROWS = 34;

/** A shape's figures, then both distributions mirrored, with the candidate above, and their ECDFs if there is room. */
export function comparisonDetail(
  { result, pairs, self, shape, mode }: ShapeComparisonView,
  { width, height }: Size,
): Row[] {
  const title: Row = [
    run(`${caseText(shape)} ${MODE_WORDS[mode]}`, 'title'),
    run('  candidate above the axis, champion below', 'dim'),
  ];
  const facts = factRows({ result, pairs, self, width });
  const [upper, lower] = [histogramData(result?.candidateHistogram), histogramData(result?.championHistogram)];
  if (upper === undefined || lower === undefined)
    return [title, ...facts, [run('distributions come with the result of the shape', 'dim')]].slice(0, height);
  const room = Math.min(MOST_ROWS, Math.max(5, height - 1 - facts.length));
  const medians = [result?.candidate?.p50Us ?? 0, result?.champion?.p50Us ?? 0] as const;
  return [
    title,
    ...facts,
    ...twoDistributions({ upper, lower, medians, names: ['candidate', 'champion'] }, { width, height: room }),
  ].slice(0, height);
}

function factRows({
  result,
  pairs,
  self,
  width,
}: Pick<ShapeComparisonView, 'result' | 'pairs' | 'self'> & { width: number }): Row[] {
  const groups: Row[] = [
    labelled('speedup', pairsText(pairs)),
    ...(result?.cycles === undefined ? [] : [labelled('in cycles', intervalText(result.cycles, result.blocks))]),
    labelled('self-check', pairsText(self)),
    labelled('blocks', String(pairs?.blocks ?? 0)),
    ...(result !== undefined && result.droppedBlocks > 0
      ? [labelled('dropped', `×${result.droppedBlocks}`, 'bad')]
      : []),
  ];
  return [
    ...(result === undefined || result.reason === ''
      ? []
      : wrapRows(result.reason, width, { role: COMPARISON_MARKS[result.verdict].role, hang: 2 }).slice(0, 3)),
    ...flowRows(groups, width),
  ];
}
