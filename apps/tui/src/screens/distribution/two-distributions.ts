/** Two latency distributions over one axis: mirrored histograms and, if there is room, both ECDFs below them. */
import { ecdf } from '../../present/cells/ecdf.ts';
import type { HistogramData } from '../../present/cells/histogram.ts';
import { mirroredHistogram } from '../../present/cells/mirrored.ts';
import type { Row } from '../../present/cells/row.ts';
import type { Size } from '../pane/view.ts';

/** Fewest rows in which both plots fit. */
const LEAST_BOTH = 16;
const MOST_A_PLOT = 17;

interface Distributions {
  upper: HistogramData;
  lower: HistogramData;
  medians: readonly [number, number];
}

/** `upper` is drawn above the axis; medians in the same order, microseconds. */
export function twoDistributions({ upper, lower, medians }: Distributions, { width, height }: Size): Row[] {
  if (height < LEAST_BOTH) return mirroredHistogram({ upper, lower }, { width, height, medians });
  const mirrored = Math.min(MOST_A_PLOT, Math.ceil(height * 0.55));
  return [
    ...mirroredHistogram({ upper, lower }, { width, height: mirrored, medians }),
    ...ecdf(
      [
        { data: upper, role: 'bar' },
        { data: lower, role: 'barAlternative' },
      ],
      { width, height: Math.min(MOST_A_PLOT, height - mirrored) },
    ),
  ];
}
