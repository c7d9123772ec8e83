import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { CaseResultSchema } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { PLAIN } from '../../testing/result-fixtures.ts';
import { plainLines } from '../plain/plain-painter.ts';
import { sdpaBlocks } from './sdpa.ts';

const linesOf = (cases: readonly MessageInitShape<typeof CaseResultSchema>[]): string[] =>
  plainLines(sdpaBlocks(cases.map((each) => create(CaseResultSchema, each))), PLAIN);

const version = 'PyTorch 2.11.0, cuDNN 9.19.0';
const flash = {
  backend: 'sdpa/flash',
  version,
  inputs: 5,
  maxAbsDifference: 2.44e-4,
  meanAbsDifference: 1.5e-5,
  sdpaMaxAbsError: 1.6e-4,
  sdpaMeanAbsError: 2e-5,
  maxAbsError: 1.2e-4,
  meanAbsError: 1.8e-5,
};
const cudnn = { ...flash, backend: 'sdpa/cudnn', sdpaMeanAbsError: 1e-5 };

test('the section about SDPA has a row per case with both errors against the reference, and a line per backend', () => {
  const cases = ['2x8x512x64', '2x8x512x64c'].map((text) => ({
    shape: parseShape(text),
    sdpa: [cudnn, flash, { backend: 'sdpa/efficient', version, missing: 'no' }],
  }));
  const lines = linesOf(cases);
  expect(`\n${lines.join('\n')}\n`).toBe(`
  next to SDPA  backend  max diff  mean diff  max err   ours  mean err  ours
  2x8x512x64    flash     2.44e-4    1.50e-5  1.60e-4  x0.75   2.00e-5  x0.9
  2x8x512x64c   flash     2.44e-4    1.50e-5  1.60e-4  x0.75   2.00e-5  x0.9
  diff: ours to SDPA's, on the same 5 inputs a case; err: SDPA's to the fp64
  reference; ours: the kernel's error over SDPA's, below 1 is nearer; PyTorch
  2.11.0, cuDNN 9.19.0
  sdpa/flash, 2 cases: largest difference 2.44e-4; mean error x0.9 to x0.9
  sdpa/cudnn, 2 cases: largest difference 2.44e-4; mean error x1.8 to x1.8
`);
});

test('without a comparison the section gives the reason', () => {
  const cases = [{ sdpaMissing: 'no PyTorch on this host; install it' }];
  expect(linesOf(cases)).toEqual(['  next to SDPA: not measured: no PyTorch on this host; install it']);
  expect(linesOf([{}])).toEqual([]);
});
