import { create } from '@bufbuild/protobuf';
import { DeviceSchema, FindingKind } from '@flashcore/shared/contract';
import { parseShape, type LaunchPlan } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { NORMAL } from '../../worker/verify/inputs.ts';
import type { CaseReport } from '../../worker/messages/verifying.ts';
import { judge, rowsPerTile } from './case-judgement.ts';

const X = { name: 'X', dims: [2 ** 28], dtype: 'fp32' };

test('a finding of a case names the distributions and seeds on which the kernel was wrong', () => {
  const judged = {
    shape: parseShape('1x1x1x8'),
    plan: { launches: [], tensors: [X], workspace: [] } as unknown as LaunchPlan,
    device: create(DeviceSchema, { deviceId: 'gpu0', memoryBytes: 2n ** 30n }),
    tolerance: { profile: 'parity', absolute: 0, relative: 0 },
    ownTolerances: {},
    inputs: ['a1', 'b2', 'c3'].map((seed, index) => ({ seed, rule: { ...NORMAL, name: `rule_${index}` } })),
    lastInput: 1,
  };
  const figures = { mismatches: 0n, nanCount: 0n, infCount: 0n, unwrittenCount: 0n, elements: 8n, firstMismatches: [] };
  const output = { name: 'O', figures: { ...figures, errorMap: { outputDims: [1, 1, 1, 8] } } };
  // Verification ended after the second input.
  const inputs = [false, true].map((failed) => ({ failed, maxAbsError: 0, roundingRatio: 0 }));
  const report = { figures: {}, outputs: [output], inputs, modified: ['Q'], straying: 0, isAttention: true };
  const wrong = judge({ status: 'done', value: report as unknown as CaseReport }, judged);
  const named = [{ seed: 'b2', distribution: 'rule_1' }];
  expect(wrong.findings).toMatchObject([{ kind: FindingKind.INPUT_MODIFIED, inputs: named }]);
  const late = judge({ status: 'time-limit', step: 'running the kernel', limitMs: 1000 }, judged);
  expect(late.findings).toMatchObject([{ kind: FindingKind.TIMED_OUT, inputs: named }]);
  const fault = {
    call: 'cuMemAlloc_v2',
    arguments: '',
    name: 'CUDA_ERROR_OUT_OF_MEMORY',
    description: 'out of memory',
  };
  expect(judge({ status: 'fault', fault }, { ...judged, lastInput: 0 }).findings).toMatchObject([
    {
      message:
        'cuMemAlloc_v2 failed with CUDA_ERROR_OUT_OF_MEMORY: out of memory: the case takes 1.0 GiB (X), and gpu0 has 1.0 GiB, of which too little was free',
      inputs: [{ seed: 'a1', distribution: 'rule_0' }],
    },
  ]);
});

test('rows of a tile follow from the number of tiles, even if the last tile is short', () => {
  const cases = [
    [333, 6, 64], // ceil(333 / 64) tiles
    [512, 4, 128],
    [64, 64, 1], // a CTA a row
    [49, 1, 49],
    [100, 3, 0], // 34 to 49 rows: no power of two
    [64, 2.5, 0],
    [4, 8, 0],
  ] as const;
  expect(cases.map(([rows, tiles]) => rowsPerTile(rows, tiles))).toEqual(cases.map(([, , wanted]) => wanted));
});
