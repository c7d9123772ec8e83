/** The fallback is compiled in the background, in case the requested variant fails. */
import { create } from '@bufbuild/protobuf';
import { DeviceSchema } from '@flashcore/shared/contract';
import { parseManifest, resolveVariant } from '@flashcore/shared/kernels';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { BuildListener } from '../build/compile-cache.ts';
import type { BuildSpec } from '../build/kernel-units.ts';
import { compileFallback } from './build-phase.ts';
import type { JobServices } from './job-services.ts';

const manifest = parseManifest(
  readFileSync(new URL('../../../../kernels/flashcore_v6/kernel.yaml', import.meta.url), 'utf8'),
  'kernel.yaml',
);
const fallback = resolveVariant(manifest, { parameters: { USE_WMMA: 0n } });

interface Job {
  simulated?: boolean;
  hasFallback?: boolean;
  compiling?: object;
}

function servicesOn(parts: Job) {
  const { simulated = false, hasFallback = true, compiling } = parts;
  const asked: { spec: BuildSpec; listener: BuildListener }[] = [];
  const build = (spec: BuildSpec, listener: BuildListener): Promise<never> => {
    asked.push({ spec, listener });
    return new Promise((_, reject) => listener.signal.addEventListener('abort', () => reject(new Error('ended'))));
  };
  const services = {
    job: { signal: new AbortController().signal },
    tools: { kernels: { build } },
    spec: {
      kernel: { manifest, kernelId: manifest.id, folder: '' },
      device: create(DeviceSchema, { arch: 'sm_90', simulated }),
      arch: 'sm_90',
      shapes: [],
      fallback: hasFallback ? fallback : undefined,
    },
    compiling,
  } as unknown as JobServices;
  return { services, asked };
}

test('the fallback is compiled in the background, and stopped if it is not needed', async () => {
  const { services, asked } = servicesOn({});
  const beside = compileFallback(services)!;
  expect(asked.map(({ spec, listener }) => [spec.resolved.label, listener.aside, listener.signal.aborted])).toEqual([
    ['USE_WMMA=0', true, false],
  ]);
  await beside.drop();
  expect(asked[0]!.listener.signal.aborted).toBe(true);
});

test.each([
  ['without a fallback', { hasFallback: false }],
  ['on the emulator', { simulated: true }],
  ['for another host', { compiling: {} }],
])('compileFallback() compiles nothing %s', (_, parts) => {
  const { services, asked } = servicesOn(parts);
  expect([compileFallback(services), asked]).toEqual([undefined, []]);
});
