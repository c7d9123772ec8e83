/** The live comparison of candidate and champion: the last progress of each shape, until its result arrives. */
import {
  TimingMode,
  type ComparisonProgress,
  type ComparisonResult,
  type Shape,
  type ShapeComparison,
} from '@flashcore/shared/contract';
import type { ShapePairs } from '../present/sections/comparison.ts';
import { benchmarkKey } from '../present/words.ts';

/** A comparison so far; `result` is set once all shapes were compared. */
export interface ComparisonView {
  readonly shapes: readonly ShapeComparisonView[];
  readonly result?: ComparisonResult | undefined;
}

/** One shape in one timing mode, by its key. */
export interface ShapeComparisonView extends ShapePairs {
  readonly key: string;
}

const EMPTY: ComparisonView = { shapes: [] };
const keyOf = (shape: Shape | undefined, mode: TimingMode): string => benchmarkKey(shape, mode, 'comparison');

export function withComparisonProgress(view: ComparisonView = EMPTY, progress: ComparisonProgress): ComparisonView {
  const { shape, mode, simulated, blocks, time, champion, candidate } = progress;
  const key = keyOf(shape, mode);
  const before = view.shapes.find((each) => each.key === key) ?? { key, shape, mode, simulated };
  return withShape(view, {
    ...before,
    [progress.selfCheck ? 'self' : 'pairs']: { blocks, time, champion, candidate },
  });
}

export function withShapeComparison(view: ComparisonView = EMPTY, result: ShapeComparison): ComparisonView {
  const { shape, mode, simulated, time, champion, candidate, blocks, selfTime, selfBlocks } = result;
  const key = keyOf(shape, mode);
  return withShape(view, {
    key,
    shape,
    mode,
    simulated,
    self: { blocks: selfBlocks, time: selfTime },
    pairs: { blocks, time, champion, candidate },
    result,
  });
}

export function withComparisonResult(view: ComparisonView = EMPTY, result: ComparisonResult): ComparisonView {
  return { ...result.shapes.reduce<ComparisonView>(withShapeComparison, view), result };
}

function withShape(view: ComparisonView, next: ShapeComparisonView): ComparisonView {
  const index = view.shapes.findIndex(({ key }) => key === next.key);
  return { ...view, shapes: index < 0 ? [...view.shapes, next] : view.shapes.with(index, next) };
}
