import { fileURLToPath } from 'node:url';
import { KernelReferenceSchema } from '@flashcore/shared';
import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { UsageError } from './exit-code.ts';
import { championById } from './start-job.ts';

const BUILD_ID = '4b'.repeat(32);
const SOME_KERNEL = fileURLToPath(new URL('../../../../kernels/flashcore_v6', import.meta.url));

test.each([
  ['flashcore_v6', { case: 'kernelId', value: 'flashcore_v6' }],
  [BUILD_ID, { case: 'buildId', value: BUILD_ID }],
] as const)('--against %s where nothing is uploaded names what the runner has', async (against, source) => {
  expect(await championById({ against })).toEqual(create(KernelReferenceSchema, { source }));
});

test('--against with a folder is bad usage where nothing is uploaded', async () => {
  await expect(championById({ against: SOME_KERNEL })).rejects.toThrow(UsageError);
  expect(await championById({})).toBeUndefined();
});
