import { installedProblem, parseShape, shapeOf } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { whyNotSdpa } from './sdpa-spec.ts';

test('SDPA is measured only for plain attention, and only if the problem names it', () => {
  const attention = installedProblem('attention');
  const why = (text: string, problem = attention) => whyNotSdpa(problem, parseShape(text), 'fp16');
  expect(why('2x8x512x64c')).toBeUndefined();
  expect(why('2x8x512x64,Hkv=2')).toBe('SDPA is not called for 2x8x512x64,Hkv=2 of attention');
  expect(why('2x8x512x64', { ...attention, baselines: [] })).toBe(
    'SDPA is not called for 2x8x512x64 of attention, whose problem.yaml does not name it in `baselines`',
  );
  expect(whyNotSdpa(installedProblem('softmax'), shapeOf({ rows: 2, N: 3 }), 'bf16')).toBe(
    'SDPA is not called for N=3,rows=2 of softmax',
  );
});
