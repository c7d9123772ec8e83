import { readFileSync } from 'node:fs';
import { create } from '@bufbuild/protobuf';
import {
  ChampionSchema,
  DeviceSchema,
  KernelReferenceSchema,
  RunExperimentRequestSchema,
  TuneRequestSchema,
  VariantSchema,
} from '@flashcore/shared/contract';
import { parseCases, parseGates, parseManifest, parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { KernelCatalog } from '../kernels.ts';
import { BuildStore, SourceStore } from '../store/sources.ts';
import { openDatabase } from '../store/database.ts';
import { REPOSITORY_ROOT, temporaryFolder } from '../testing/test-runner.ts';
import { judgedBy } from './judged-by.ts';
import { mayReuseSdpa, planSpec } from './plan-spec.ts';

const read = (name: string): string => readFileSync(new URL(`../../../../kernels/${name}`, import.meta.url), 'utf8');
const text = read('gates.yaml');
const manifest = parseManifest(read('flashcore_v6/kernel.yaml'), 'kernel.yaml');
const cases = parseCases(read('cases.yaml'), 'cases.yaml');
const file = parseGates(text, 'gates.yaml');

const judgedByPlan = (plan: string) =>
  judgedBy(create(RunExperimentRequestSchema, { plan }), {
    manifest,
    arch: 'sm_90',
    cases,
    gates: () => ({ text, file }),
  });

test.each([
  ['merge', true],
  ['explore', true],
  // The gate `success` decides, and so does the group `fast`, which contains speedup_sdpa.
  ['final', false],
])('mayReuseSdpa() with plan %s is %s', (plan, may) => {
  expect(mayReuseSdpa('runExperiment', { asked: undefined, judged: judgedByPlan(plan) })).toBe(may);
});

test('a benchmark, and a request that names backends, always measure SDPA', () => {
  const judged = judgedByPlan('merge');
  expect(mayReuseSdpa('benchmark', { asked: {}, judged: undefined })).toBe(false);
  expect(mayReuseSdpa('runExperiment', { asked: { sdpaBackends: ['flash'] }, judged })).toBe(false);
  expect(mayReuseSdpa('runExperiment', { asked: { rivals: ['flex'] }, judged })).toBe(false);
  expect(mayReuseSdpa('tune', { asked: { sdpaBackends: [] }, judged: undefined })).toBe(true);
});

test("a search compares its winner with the named champion, else with the device's, else with the unchanged kernel", () => {
  using folder = temporaryFolder();
  const builds = new BuildStore(openDatabase(':memory:'));
  const kernels = new KernelCatalog(`${REPOSITORY_ROOT}/kernels`, new SourceStore(folder.path), builds);
  const kernel = (value: string) => ({ source: { case: 'kernelId' as const, value } });
  const buildId = 'ab'.repeat(32);
  kernels.keepBuild(
    buildId,
    kernels.resolve(create(KernelReferenceSchema, kernel('flashcore_v5'))),
    create(VariantSchema),
  );
  const accepted = create(ChampionSchema, { buildId, kernelId: 'flashcore_v5', job: 'jobs/1', label: 'flashcore_v5' });
  const championOf = (current: typeof accepted | undefined, named?: string) => {
    const request = create(TuneRequestSchema, {
      kernel: kernel('flashcore_v6'),
      shapes: [parseShape('2x8x512x64')],
      ...(named !== undefined && { champion: { kernel: kernel(named) } }),
    });
    const { champion } = planSpec('tune', request, {
      devices: [create(DeviceSchema, { deviceId: 'gpu0', name: 'NVIDIA X1', arch: 'sm_90' })],
      kernels,
      toolchain: undefined,
      emulation: () => {
        throw new Error('a GPU is not emulated');
      },
      cases: () => cases,
      gates: () => ({ text, file }),
      championFor: () => current,
      load: () => 0,
      heldOut: [],
    });
    return [champion!.kernel.kernelId, champion!.accepted?.job];
  };
  expect(championOf(accepted)).toEqual(['flashcore_v5', 'jobs/1']);
  expect(championOf(undefined)).toEqual(['flashcore_v6', undefined]);
  expect(championOf(accepted, 'fa_v1_baseline')).toEqual(['fa_v1_baseline', undefined]);
});
