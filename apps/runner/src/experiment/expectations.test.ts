import { readFileSync } from 'node:fs';
import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { TimingMode, VariantResultSchema } from '@flashcore/shared/contract';
import { parseCases, parseManifest } from '@flashcore/shared/kernels';
import type { JobServices } from '../phases/job-services.ts';
import { expectationsOf } from './experiment.ts';

const read = (path: string): string => readFileSync(new URL(`../../../../kernels/${path}`, import.meta.url), 'utf8');
const cases = parseCases(read('cases.yaml'), 'cases.yaml');
const manifest = parseManifest(read('flashcore_v6/kernel.yaml'), 'kernel.yaml');

const servicesOn = (name: string): JobServices =>
  ({ spec: { kernel: { manifest }, device: { name } }, cases }) as unknown as JobServices;

test("the projection in flashcore_v6's notes is shown with the hot time measured on the same shape, and with the device", () => {
  const [shape] = cases.sets.canonical;
  const timed = (mode: TimingMode, p50Us: number) => ({
    shape: shape!,
    mode,
    valid: true,
    latency: { samples: 100, p50Us },
  });
  const variant = create(VariantResultSchema, {
    benchmarks: [timed(TimingMode.COLD, 40), timed(TimingMode.HOT, 28.7)],
  });
  expect(expectationsOf(servicesOn('NVIDIA H200'), variant)).toMatchObject([
    {
      device: 'NVIDIA L4',
      kind: 'projected',
      low: 400,
      high: 600,
      neverMeasured: true,
      measured: 28.7,
      measuredOn: 'NVIDIA H200',
    },
  ]);
  const [untimed] = expectationsOf(servicesOn('NVIDIA H200'), create(VariantResultSchema));
  expect([untimed!.measured, untimed!.measuredOn]).toEqual([undefined, '']);
});
