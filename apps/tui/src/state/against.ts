/** The candidate against its champion, live: the last progress of each shape until its result comes. */
import {
  TimingMode,
  type ComparisonProgress,
  type ComparisonResult,
  type LatencyStatistics,
  type RatioInterval,
  type Shape,
  type ShapeComparison,
} from '@flashcore/shared/contract';
import { benchmarkKey } from './benchmarks.ts';

/** A comparison as far as it has come; `result` once all shapes were compared. */
export interface AgainstView {
  readonly shapes: readonly AgainstShapeView[];
  readonly result?: ComparisonResult | undefined;
}

/** One shape in one timing mode. */
export interface AgainstShapeView {
  readonly key: string;
  readonly shape: Shape | undefined;
  readonly mode: TimingMode;
  readonly simulated: boolean;
  /** Champion against itself, which comes first. */
  readonly self?: AgainstPairs | undefined;
  /** Champion against candidate. */
  readonly pairs?: AgainstPairs | undefined;
  readonly result?: ShapeComparison | undefined;
}

/** Running figures of interleaved blocks. */
export interface AgainstPairs {
  readonly blocks: number;
  /** Champion's median over the candidate's. */
  readonly time?: RatioInterval | undefined;
  readonly champion?: LatencyStatistics | undefined;
  readonly candidate?: LatencyStatistics | undefined;
}

const EMPTY: AgainstView = { shapes: [] };
const keyOf = (shape: Shape | undefined, mode: TimingMode): string => benchmarkKey(shape, mode, 'against');

export function withComparisonProgress(view: AgainstView = EMPTY, progress: ComparisonProgress): AgainstView {
  const { shape, mode, simulated, blocks, time, champion, candidate } = progress;
  const key = keyOf(shape, mode);
  const before = view.shapes.find((each) => each.key === key) ?? { key, shape, mode, simulated };
  return withShape(view, {
    ...before,
    [progress.selfCheck ? 'self' : 'pairs']: { blocks, time, champion, candidate },
  });
}

export function withShapeComparison(view: AgainstView = EMPTY, result: ShapeComparison): AgainstView {
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

export function withComparisonResult(view: AgainstView = EMPTY, result: ComparisonResult): AgainstView {
  return { ...result.shapes.reduce<AgainstView>(withShapeComparison, view), result };
}

function withShape(view: AgainstView, next: AgainstShapeView): AgainstView {
  const index = view.shapes.findIndex(({ key }) => key === next.key);
  return { ...view, shapes: index < 0 ? [...view.shapes, next] : view.shapes.with(index, next) };
}
