/** Which entries are compiled first, and what becomes of them when the whole is there. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { BuildResultSchema, DeviceSchema, FindingSchema, VariantResultSchema } from '@flashcore/shared/contract';
import { parseCases, parseManifest, parseShape, resolveVariant } from '@flashcore/shared/kernels';
import { afterAll, expect, test } from 'vitest';
import type { KernelBuild } from '../build/kernel-builder.ts';
import { nothingFound, type VariantFound } from './job-found.ts';
import type { VariantServices } from './job-services.ts';
import { launchedEntries, wholeBuildPhase } from './whole-build-phase.ts';

const kernels = new URL('../../../../kernels/', import.meta.url);
const manifest = parseManifest(readFileSync(new URL('flashcore_v12/kernel.yaml', kernels), 'utf8'), 'kernel.yaml');
const cases = parseCases(readFileSync(new URL('cases.yaml', kernels), 'utf8'), 'cases.yaml');
const folder = mkdtempSync(join(tmpdir(), 'flashcore-whole-build-'));
afterAll(() => rmSync(folder, { recursive: true }));

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
      verify: { shapes: [parseShape('4x8x512x64')], ...verify },
      heldOut: [],
    },
  } as unknown as VariantServices;
  return { services, told };
}

test('all that a job launches is first, its probes too; where that is everything, or on the emulator, nothing is', () => {
  const entries = (device: object, verify = { probes: true, longProbes: true }) =>
    launchedEntries(servicesOn(device, verify).services)?.map(([entry]) => entry);
  const named = (...cuts: string[]) => cuts.map((cut) => `flashcore_v12_d64_${cut}`);
  expect(new Set(entries({}))).toEqual(new Set(named('cluster', 'few', 'rows64', 'split')));
  expect(entries({}, { probes: false, longProbes: false })).toEqual(named('split', 'rows64'));
  expect(entries({ simulated: true })).toBeUndefined();
  const { services } = servicesOn({}, { probes: false, longProbes: false });
  services.build.entries = named('rows64', 'split');
  expect(launchedEntries(services)).toBeUndefined();
});

/** An ELF file with a section of code and one of constants for an entry. */
function cubinOf(name: string, entry: string, code: string): string {
  const names = ['', '.names', `.text.${entry}`, `.nv.constant0.${entry}`];
  const contents = ['', `${names.join('\0')}\0`, code, 'constants'];
  const file = Buffer.alloc(4096);
  file.writeBigUInt64LE(64n, 40);
  file.writeUInt16LE(names.length, 60);
  file.writeUInt16LE(1, 62);
  let [at, start] = [1024, 0];
  for (const [index, content] of contents.entries()) {
    const header = 64 + index * 64;
    file.writeUInt32LE(start, header);
    file.writeUInt32LE(1, header + 4);
    file.writeBigUInt64LE(BigInt(at), header + 24);
    file.writeBigUInt64LE(BigInt(content.length), header + 32);
    file.write(content, at, 'latin1');
    at += content.length;
    start += names[index]!.length + 1;
  }
  const path = join(folder, name);
  writeFileSync(path, file);
  return path;
}

const finding = (message: string) => create(FindingSchema, { message });

function buildOf(image: string | undefined, messages: string[], buildId: string): KernelBuild {
  const result = create(BuildResultSchema, { buildId });
  return { result, findings: messages.map(finding), image, sassMissing: undefined, sourceDigest: '', sources: [] };
}

function foundWith(part: KernelBuild, whole: KernelBuild): VariantFound {
  const parts = [{ path: part.image as string, entries: ['k'] }];
  const build = { ...part, image: parts, rest: { parts, whole: Promise.resolve(whole) } };
  return { job: nothingFound(), result: create(VariantResultSchema), build };
}

test('the whole takes the place of its first entries, and brings its own findings', async () => {
  const { services, told } = servicesOn({}, { probes: false, longProbes: false });
  const part = buildOf(cubinOf('part', 'k', 'code'), ['k spills'], 'part');
  const whole = buildOf(cubinOf('whole', 'k', 'code'), ['k spills', 'other spills'], 'whole');
  const found = foundWith(part, whole);
  expect(wholeBuildPhase.wants(services, found)).toBe(true);
  expect(await wholeBuildPhase.run(services, found)).toBeUndefined();
  expect([found.build, found.result.build?.buildId, found.apart]).toEqual([whole, 'whole', undefined]);
  expect(found.result.findings.map(({ message }) => message)).toEqual(['other spills']);
  expect(told).toEqual(['buildResult', 'finding']);
  expect(wholeBuildPhase.wants(services, found)).toBe(false);
});

test('other code than the whole has is told, and the whole does not stand for it', async () => {
  const { services, told } = servicesOn({}, { probes: false, longProbes: false });
  const part = buildOf(cubinOf('own', 'k', 'code'), [], 'part');
  const found = foundWith(part, buildOf(cubinOf('other', 'k', 'else'), [], 'whole'));
  expect(await wholeBuildPhase.run(services, found)).toBeUndefined();
  expect([found.apart, found.result.build, told]).toEqual([
    'k of the whole kernel is other code than compiled apart from it: measured anew',
    undefined,
    [],
  ]);
});

test('a whole that does not compile is a kernel that was not built', async () => {
  const { services } = servicesOn({}, { probes: false, longProbes: false });
  const part = buildOf(cubinOf('apart', 'k', 'code'), [], 'part');
  const found = foundWith(part, buildOf(undefined, ['other does not compile'], 'whole'));
  expect(await wholeBuildPhase.run(services, found)).toBe('the kernel was not built');
  expect(found.result.findings.map(({ message }) => message)).toEqual(['other does not compile']);
});
