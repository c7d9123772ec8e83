import { readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { EntryResourcesSchema } from '@flashcore/shared/contract';
import type { PlannedLaunch } from '@flashcore/shared/kernels';
import { measuredFolder } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { HOPPER } from '../../worker/timing/machine.ts';
import { ESTIMATE_MODEL, fillingOf, timeEstimate } from './time-estimate.ts';

const LAUNCH = { entry: 'attend', grid: [8, 16, 1] } as unknown as PlannedLaunch;
const ENTRY = create(EntryResourcesSchema, { entry: 'attend', arch: 'sm_90', ctasPerSm: 3, registersPerThread: 128 });

interface Report {
  device: string;
  clockMhz: number;
  launchUs: number;
  errors: { scale: number; builds: number; kernels: number; pairKernels: number; pairs: number }[];
}

test("the model has the report's figures, and its errors are small enough to show estimates", () => {
  const { source } = ESTIMATE_MODEL;
  const file = join(measuredFolder(basename(dirname(source))), basename(source));
  const report = JSON.parse(readFileSync(file, 'utf8')) as Report;
  const walked = report.errors[0]!;
  expect(ESTIMATE_MODEL).toMatchObject({
    device: report.device,
    clockMhz: report.clockMhz,
    launchUs: Number(report.launchUs.toFixed(2)),
    scale: walked.scale,
    meanErrorPercent: Number((100 * Math.max(walked.kernels, walked.builds)).toFixed(1)),
    ratioErrorPercent: Number((100 * Math.max(walked.pairs, walked.pairKernels)).toFixed(1)),
  });
  expect([HOPPER.device, HOPPER.arch, HOPPER.clockMhz]).toEqual([
    ESTIMATE_MODEL.device,
    ESTIMATE_MODEL.arch,
    ESTIMATE_MODEL.clockMhz,
  ]);
  expect(ESTIMATE_MODEL.meanErrorPercent).toBeLessThan(25);
  expect(ESTIMATE_MODEL.ratioErrorPercent).toBeLessThan(10);
});

test('a latency always comes with its device, error and source', () => {
  const filling = fillingOf([LAUNCH], [ENTRY]);
  expect(filling).toEqual({ ctas: 128, multiprocessors: 132, residents: 3, registers: 128 });
  const { device, latencyUs, meanErrorPercent, source, missing } = timeEstimate(filling, {
    launches: [],
    cycles: 1980 * 20,
  });
  expect(latencyUs).toBeCloseTo(ESTIMATE_MODEL.launchUs + 20 * ESTIMATE_MODEL.scale);
  expect([device, meanErrorPercent > 0, source, missing]).toEqual([
    'NVIDIA H200',
    true,
    ESTIMATE_MODEL.source,
    undefined,
  ]);
});

test.for([
  ['another architecture', [LAUNCH], { ...ENTRY, arch: 'sm_89' }, '--arch sm_90 builds for the'],
  ["Hopper's own instructions", [LAUNCH], { ...ENTRY, arch: 'sm_90a' }, 'that only sm_90a has, such as wgmma'],
  ['no ptxas', [LAUNCH], { ...ENTRY, ctasPerSm: 0 }, 'known from nvcc only'],
  ['two launches', [LAUNCH, LAUNCH], ENTRY, 'this one has 2'],
] as const)('there is no time estimate with %s, and the result says why', ([, launches, entry, why]) => {
  const filling = fillingOf(launches, [entry]);
  expect(filling).toContain(why);
  expect(timeEstimate(filling, { launches: [] })).toMatchObject({ latencyUs: 0, missing: filling });
});

test('the reason why the model has no time is passed on', () => {
  const noCycles = 'the model has no time for wgmma';
  expect(timeEstimate(fillingOf([LAUNCH], [ENTRY]), { launches: [], noCycles }).missing).toBe(noCycles);
});
