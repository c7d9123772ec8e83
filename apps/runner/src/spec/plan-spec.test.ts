import { readFileSync } from 'node:fs';
import { create } from '@bufbuild/protobuf';
import { RunExperimentRequestSchema } from '@flashcore/shared/contract';
import { parseCases, parseGates, parseManifest } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { judgedBy } from './judged-by.ts';
import { mayReuseSdpa } from './plan-spec.ts';

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
])('plan %s: %s', (plan, may) => {
  expect(mayReuseSdpa('runExperiment', { asked: undefined, judged: judgedByPlan(plan) })).toBe(may);
});

test('SDPA is always measured for a benchmark, and for named backends', () => {
  const judged = judgedByPlan('merge');
  expect(mayReuseSdpa('benchmark', { asked: {}, judged: undefined })).toBe(false);
  expect(mayReuseSdpa('runExperiment', { asked: { sdpaBackends: ['flash'] }, judged })).toBe(false);
  expect(mayReuseSdpa('tune', { asked: { sdpaBackends: [] }, judged: undefined })).toBe(true);
});
