import { create } from '@bufbuild/protobuf';
import { TimingMode, BenchmarkResultSchema, DeviceSchema } from '@flashcore/shared/contract';
import { attentionCase, parseShape } from '@flashcore/shared/kernels';
import { describe } from '@flashcore/shared/statistics';
import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import type { AppState } from '../../state/app-state.ts';
import type { VariantView } from '../../state/job-view.ts';
import { rooflineRows } from './roofline.ts';

const device = create(DeviceSchema, { name: 'NVIDIA L4', roofline: { fp16TensorTflops: 121, memoryGbPerSecond: 300 } });
const shape = parseShape('2x8x512x64');

/** The text for a kernel that takes `us` microseconds on an L4. */
function told(us: number): string {
  const { flops, bytes } = attentionCase(shape, 'fp16');
  const result = create(BenchmarkResultSchema, { shape, mode: TimingMode.HOT, flops, bytes, tflops: flops / us / 1e6 });
  const variant = {
    benchmarks: [{ subject: 'candidate', shape, mode: TimingMode.HOT, latency: describe([us]), result }],
  } as unknown as VariantView;
  const state = { views: { 'jobs/1': { device } }, attached: 'jobs/1' } as unknown as AppState;
  return rooflineRows(state, variant, { width: 200, height: 12 })
    .map(rowText)
    .find((row) => row.includes('% of the roof'))!
    .trim();
}

test('a kernel whose tensors stay in L2 can be above the memory roof, and the text explains it', () => {
  expect([told(20), told(13)].map((text) => /, ([\d.]+ % of the roof.*)$/.exec(text)![1])).toEqual([
    '69.9 % of the roof (memory above)',
    '107.5 % of the roof (tensors in L2 come faster than from memory)',
  ]);
});
