import { join } from 'node:path';
import { expect, test } from 'vitest';
import { create } from '@bufbuild/protobuf';
import { JobEventSchema, KernelVariantSchema, Phase, type JobEvent } from '@flashcore/shared/contract';
import { KernelCatalog } from '../kernels.ts';
import { BuildStore, SourceStore } from '../store/sources.ts';
import { openDatabase } from '../store/database.ts';
import { FAKE_DEVICE } from '../testing/fake-planner.ts';
import { REPOSITORY_ROOT, temporaryFolder } from '../testing/test-runner.ts';
import { BuiltVariants } from './built-variants.ts';

const building = (variant: string): JobEvent =>
  create(JobEventSchema, { payload: { case: 'phaseStarted', value: { phase: Phase.BUILD, variant } } });
const built = (buildId: string): JobEvent =>
  create(JobEventSchema, { payload: { case: 'buildResult', value: { buildId, succeeded: true } } });

test('a build of the requested variant or of the fallback is recorded with its variant; any other build is not recorded', () => {
  using folder = temporaryFolder();
  const database = openDatabase(':memory:');
  const builds = new BuildStore(database);
  const sources = new SourceStore(join(folder.path, 'sources'));
  const kernels = new KernelCatalog(join(REPOSITORY_ROOT, 'kernels'), sources, builds);
  const asked = create(KernelVariantSchema, { kernel: { source: { case: 'kernelId', value: 'flashcore_v6' } } });
  const variants = new BuiltVariants(asked, { kernels, device: FAKE_DEVICE });
  for (const each of [
    building('USE_WMMA=1'),
    built('a'),
    building('USE_WMMA=0'),
    built('b'),
    building('other'),
    built('c'),
  ])
    variants.note(each);
  const toggleOf = (id: string) => builds.find(id)?.variant.parameters['USE_WMMA'];
  expect([toggleOf('a'), toggleOf('b'), toggleOf('c')]).toEqual([1n, 0n, undefined]);
  database.close();
});
