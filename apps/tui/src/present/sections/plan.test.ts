import { create } from '@bufbuild/protobuf';
import { ExpectationSchema } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { expectationText } from './plan.ts';

const claim = {
  metric: 'latency_us',
  shape: parseShape('2x8x512x64'),
  device: 'NVIDIA L4',
  kind: 'projected',
  low: 400,
  high: 600,
  unit: 'us',
  source: 'note 004',
  neverMeasured: true,
};
const told = (change: object): string => expectationText(create(ExpectationSchema, { ...claim, ...change }));

test('a figure that a note projects is shown with the measured figure, or with "not measured"', () => {
  const note = 'latency_us 2x8x512x64 on NVIDIA L4: projected 400 to 600 us, never measured';
  expect([
    told({}),
    told({ measured: 28.7, measuredOn: 'NVIDIA H200' }),
    told({ measured: 410, measuredOn: 'NVIDIA L4' }),
    told({ measured: 410, measuredOn: 'NVIDIA L40', device: 'L4' }),
  ]).toEqual([
    `${note}, not measured here`,
    `${note}, measured 28.7 us on NVIDIA H200, not measured on NVIDIA L4`,
    `${note}, measured 410 us on NVIDIA L4`,
    `${note.replace('NVIDIA L4', 'L4')}, measured 410 us on NVIDIA L40, not measured on L4`,
  ]);
});
