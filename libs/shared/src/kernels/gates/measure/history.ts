/** Metrics of the comparison with the champion. */
import { ComparisonVerdict, type RatioInterval } from '../../../generated/flashcore/runner/v1/result_pb.js';
import { formatShape } from '../../shape.ts';
import type { Measure } from './answer.ts';
import { entryOf } from '../../../text/entry-of.ts';

const FIGURES: Readonly<Record<string, (ratio: RatioInterval) => number>> = {
  ratio: ({ ratio }) => ratio,
  low: ({ low }) => low,
  high: ({ high }) => high,
};

/**
 * What the interleaved comparison of the job says, the smaller of time and cycles on each shape: of ratios the least
 * (no shape may be slower), of interval ends the greatest (one shape must be faster). A stored figure of another day
 * says nothing here.
 */
export const measureHistory: Measure = ({ variant: { comparison }, noChampion }, { statistic = 'ratio' }) => {
  if (!comparison) return { notMeasured: noChampion ?? 'the job did not come to the comparison with the champion' };
  const source = `interleaved with ${comparison.champion?.label ?? 'the champion'} in this job`;
  if (comparison.verdict === ComparisonVerdict.NOT_JUDGED) return { notMeasured: comparison.reason, source };
  const values = comparison.shapes.flatMap((each) =>
    [each.time, each.cycles].flatMap((ratio) =>
      ratio ? [{ value: entryOf(FIGURES, statistic)!(ratio), ratio, shape: each.shape!, reason: each.reason }] : [],
    ),
  );
  const ofShape = [...Map.groupBy(values, ({ shape }) => formatShape(shape)).values()].map((all) =>
    all.reduce((a, b) => (b.value < a.value ? b : a)),
  );
  const least = statistic === 'ratio';
  const chosen = ofShape.reduce((a, b) => ((least ? b.value < a.value : b.value > a.value) ? b : a));
  return {
    value: chosen.value,
    detail: `${formatShape(chosen.shape)}: ${chosen.reason}`,
    source,
    low: chosen.ratio.low,
    high: chosen.ratio.high,
  };
};
