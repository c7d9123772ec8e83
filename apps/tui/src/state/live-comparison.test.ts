import { create } from '@bufbuild/protobuf';
import {
  ComparisonVerdict,
  TimingMode,
  ComparisonProgressSchema,
  ComparisonResultSchema,
  ShapeComparisonSchema,
} from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { withComparisonProgress, withComparisonResult, withShapeComparison } from './live-comparison.ts';

test('self-check, progress of the candidate, and result all update one shape under one key', () => {
  const place = { shape: parseShape('2x8x512x64'), mode: TimingMode.HOT };
  const self = withComparisonProgress(
    undefined,
    create(ComparisonProgressSchema, {
      ...place,
      selfCheck: true,
      blocks: 50,
      time: { ratio: 1, low: 0.999, high: 1.001 },
    }),
  );
  const both = withComparisonProgress(
    self,
    create(ComparisonProgressSchema, { ...place, blocks: 10, time: { ratio: 1.05, low: 1.04, high: 1.06 } }),
  );
  expect(both.shapes).toMatchObject([
    { self: { blocks: 50, time: { ratio: 1 } }, pairs: { blocks: 10, time: { ratio: 1.05 } } },
  ]);
  const shape = create(ShapeComparisonSchema, {
    ...place,
    verdict: ComparisonVerdict.FASTER,
    blocks: 60,
    selfBlocks: 50,
  });
  const whole = withComparisonResult(
    withShapeComparison(both, shape),
    create(ComparisonResultSchema, { shapes: [shape], verdict: ComparisonVerdict.FASTER }),
  );
  expect(whole).toMatchObject({
    result: { verdict: ComparisonVerdict.FASTER },
    shapes: [{ key: both.shapes[0]!.key, self: { blocks: 50 }, pairs: { blocks: 60 }, result: shape }],
  });
});
