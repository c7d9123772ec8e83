/** Metrics from the comparison with the champion. */
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
 * Reads the job's interleaved comparison. Each shape has the smaller of its time and cycles values. Over all shapes, a
 * ratio gate uses the least value (no shape may be slower), and a gate on an interval's end uses the greatest (one
 * shape must be faster). Stored figures of another day are not used.
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
