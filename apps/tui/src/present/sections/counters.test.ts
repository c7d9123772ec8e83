import { create } from '@bufbuild/protobuf';
import { TimeEstimateSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { estimateText } from './counters.ts';

test('an estimate is never shown without its device and its errors; where there is none, why', () => {
  const estimate = create(TimeEstimateSchema, {
    device: 'NVIDIA H200',
    latencyUs: 27.24,
    meanErrorPercent: 8.8,
    ratioErrorPercent: 8.4,
  });
  const missing = create(TimeEstimateSchema, { device: 'NVIDIA H200', missing: 'the model has no time for wgmma' });
  expect([estimate, missing, undefined].map(estimateText)).toEqual([
    '27.24 us hot on NVIDIA H200, by a model (mean error 9 %, between two builds of a kernel 8 %); not measured, and no gate uses it',
    'none: the model has no time for wgmma',
    '',
  ]);
});
