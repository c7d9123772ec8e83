/** Entries that are compiled first, and how the others join them. */
import { readFileSync } from 'node:fs';
import { create } from '@bufbuild/protobuf';
import { BuildResultSchema, DeviceSchema, FindingSchema, VariantResultSchema } from '@flashcore/shared/contract';
import { parseCases, parseManifest, parseShape, resolveVariant } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import type { KernelBuild } from '../build/compiled-kernel.ts';
import { nothingFound, type VariantFound } from './job-found.ts';
import type { VariantServices } from './job-services.ts';
import { launchedEntries, restOfBuildPhase } from './rest-of-build-phase.ts';

const kernels = new URL('../../../../kernels/', import.meta.url);
const manifest = parseManifest(readFileSync(new URL('flashcore_v12/kernel.yaml', kernels), 'utf8'), 'kernel.yaml');
const cases = parseCases(readFileSync(new URL('cases.yaml', kernels), 'utf8'), 'cases.yaml');

function servicesOn(device: { simulated?: boolean }, verify: { probes: boolean; longProbes: boolean }) {
  const told: string[] = [];
  const services = {
    job: { emit: ({ case: what }: { case: string }) => void told.push(what) },
    resolved: resolveVariant(manifest, {}, undefined),
    cases,
    frames: { ofFinding: () => undefined },
    build: { entries: [...new Set(manifest.launches.map(({ entry }) => entry))] },
    spec: {
      device: create(DeviceSchema, { arch: 'sm_90', ...device }),
      kernel: { manifest },
      shapes: [parseShape('2x8x512x64')],
      verify: { shapes: [parseShape('4x8x512x64')], timedShapes: [], ...verify },
      heldOut: [],
    },
  } as unknown as VariantServices;
  return { services, told };
}

test('all launched entries, including those of probes, are compiled first; if these are all entries, or on the emulator, all are compiled together', () => {
  const entries = (device: object, verify = { probes: true, longProbes: true }) =>
    launchedEntries(servicesOn(device, verify).services);
  const ofWidth = (width: number, ...cuts: string[]) => cuts.map((cut) => `flashcore_v12_d${width}_${cut}`);
  const named = (...cuts: string[]) => ofWidth(64, ...cuts);
  expect(new Set(entries({}))).toEqual(
    new Set([
      ...named('capped64', 'cluster', 'few', 'formed64', 'rows64', 'split'),
      ...ofWidth(128, 'capped64', 'cluster', 'few', 'formed64', 'small'),
    ]),
  );
  expect(entries({}, { probes: false, longProbes: false })).toEqual(named('split', 'rows64'));
  expect(entries({ simulated: true })).toBeUndefined();
  const { services } = servicesOn({}, { probes: false, longProbes: false });
  services.build.entries = named('rows64', 'split');
  expect(launchedEntries(services)).toBeUndefined();
});

const finding = (message: string) => create(FindingSchema, { message });

function buildOf(image: KernelBuild['image'], messages: string[], seconds: number): KernelBuild {
  const result = create(BuildResultSchema, { buildId: 'build', seconds });
  return {
    result,
    findings: messages.map(finding),
    image,
    sassMissing: undefined,
    keptState: [],
    sourceDigest: '',
    sources: [],
  };
}

const foundWith = (part: KernelBuild, all: KernelBuild): VariantFound => ({
  job: nothingFound(),
  result: create(VariantResultSchema),
  build: { ...part, complete: Promise.resolve(all) },
});

test('the build with all entries replaces the build with the first entries, and adds its own findings', async () => {
  const { services, told } = servicesOn({}, { probes: false, longProbes: false });
  const all = buildOf({ k: '/k', other: '/other' }, ['k spills', 'other spills'], 2);
  const found = foundWith(buildOf({ k: '/k' }, ['k spills'], 1), all);
  expect(restOfBuildPhase.wants(services, found)).toBe(true);
  expect(await restOfBuildPhase.run(services, found)).toBeUndefined();
  expect([found.build, found.result.build]).toEqual([all, all.result]);
  expect(found.result.findings.map(({ message }) => message)).toEqual(['other spills']);
  expect(told).toEqual(['buildResult', 'finding']);
  expect(restOfBuildPhase.wants(services, found)).toBe(false);
});

test('if an entry other than the first ones does not compile, the build fails', async () => {
  const { services } = servicesOn({}, { probes: false, longProbes: false });
  const found = foundWith(buildOf({ k: '/k' }, [], 1), buildOf(undefined, ['other does not compile'], 2));
  expect(await restOfBuildPhase.run(services, found)).toBe('the kernel was not built');
  expect(found.result.findings.map(({ message }) => message)).toEqual(['other does not compile']);
});
