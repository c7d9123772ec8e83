import { expect, test } from 'vitest';
import { prepareLaunches } from './arguments.ts';
import type { CudaDriver } from './cuda-driver.ts';

type Parts = Parameters<typeof prepareLaunches>[1];

/** The arguments of the driver's encoding call for a tensor of these dimensions. */
function encoded(dims: readonly number[], box: readonly number[]): unknown {
  const maps: unknown[] = [];
  const driver = {
    stream: 0n,
    encodeTensorMap: (_: Buffer, { dimensions, strides, box }: Record<string, unknown>) =>
      maps.push({ dimensions, strides, box }),
  } as unknown as CudaDriver;
  const launch = {
    entry: 'k',
    grid: [1, 1, 1],
    block: [32, 1, 1],
    sharedBytes: 0,
    l2Persist: [],
    arguments: [{ kind: 'tensorMap', tensor: 'A', box, swizzle: '128B' }],
  };
  const plan = { launches: [launch], tensors: [{ name: 'A', dtype: 'bf16', dims }] };
  const parts = { plan, functions: new Map([[launch, 1n]]), addresses: { tensors: { A: 256n }, workspace: new Map() } };
  prepareLaunches(driver, parts as unknown as Parts);
  return maps[0];
}

test.each([
  [true, [2, 6]],
  [false, [2]],
])('a cooperative, programmatic launch has the attributes that a device with clusters=%s takes', (clusters, ids) => {
  const driver = { stream: 7n, facts: { clusters } } as unknown as CudaDriver;
  const launch = {
    entry: 'k',
    grid: [1, 2, 3],
    block: [32, 1, 1],
    sharedBytes: 64,
    cooperative: true,
    programmatic: true,
    l2Persist: [],
    arguments: [],
  };
  const plan = { launches: [launch], tensors: [] };
  const parts = { plan, functions: new Map([[launch, 1n]]), addresses: { tensors: {}, workspace: new Map() } };
  const { config } = prepareLaunches(driver, parts as unknown as Parts).specs[0]! as { config?: Buffer };
  const attributes = Array.from({ length: config!.readUInt32LE(48) }, (_, index) => 56 + 72 * index);
  expect(attributes.map((at) => [config!.readUInt32LE(at), config!.readInt32LE(at + 8)])).toEqual(
    ids.map((id) => [id, 1]),
  );
});

test('a tensor map has heads, rows and columns; a matrix has a dimension of heads only if the box has one', () => {
  expect(encoded([2, 4, 128, 64], [64, 32])).toEqual({
    dimensions: [64, 128, 8],
    strides: [128, 16_384],
    box: [64, 32, 1],
  });
  expect(encoded([256, 192], [64, 128])).toEqual({ dimensions: [192, 256], strides: [384], box: [64, 128] });
  expect(encoded([256, 192], [64, 128, 1])).toEqual({
    dimensions: [192, 256, 1],
    strides: [384, 98_304],
    box: [64, 128, 1],
  });
});
