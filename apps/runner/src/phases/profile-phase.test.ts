/** The profiler that starts during the build. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { create } from '@bufbuild/protobuf';
import {
  DeviceSchema,
  LineProfileSchema,
  MetricSchema,
  ProfileResultSchema,
  ShapeSchema,
  VariantResultSchema,
  Verdict,
} from '@flashcore/shared/contract';
import { parseManifest, parseShape, resolveVariant } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import type { Profiler } from '../profile/profiler.ts';
import { nothingFound, type VariantFound } from './job-found.ts';
import type { VariantServices } from './job-services.ts';
import {
  profileBeside,
  profileFindings,
  profilePhase,
  profileReadPhase,
  profileVerifiedPhase,
} from './profile-phase.ts';

const KERNEL = new URL('../../../../kernels/flashcore_v6/kernel.yaml', import.meta.url);
const manifest = parseManifest(readFileSync(KERNEL, 'utf8'), fileURLToPath(KERNEL));

/** A job on a device whose profiler records its calls. */
function jobOn(device: { simulated?: boolean }) {
  const said: string[] = [];
  const evaluated = Promise.withResolvers<void>();
  const profiler: Profiler = {
    profile: async (_, { signal, onProgress, built, onLaunched }) => {
      onProgress({ message: 'starting', passesDone: 0, passes: 0 });
      said.push('ready');
      const ended = new Promise<never>((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          said.push('dropped');
          reject(signal.reason as Error);
        });
      });
      const { image } = await Promise.race([built, ended]);
      said.push(`launched ${image as string}`);
      onLaunched?.();
      await Promise.race([evaluated.promise, ended]);
      return create(ProfileResultSchema, { verdict: Verdict.PASS });
    },
  };
  const services = {
    job: { signal: new AbortController().signal, emit: ({ case: what }: { case: string }) => void said.push(what) },
    resolved: resolveVariant(manifest, {}, undefined),
    runtime: { instruments: { profiler: () => profiler } },
    tools: { disassembleByLine: () => Promise.resolve({ missing: 'nvdisasm was not found' }) },
    spec: {
      device: create(DeviceSchema, { arch: 'sm_90', ...device }),
      kernel: { manifest },
      profile: { shape: parseShape('2x8x512x64'), metricSet: 'gates', counters: [] },
      verify: {},
    },
  } as unknown as VariantServices;
  const found = {
    job: nothingFound(),
    result: create(VariantResultSchema),
    build: { image: 'kernel.cubin', result: { entries: [], artifacts: [] } },
  } as unknown as VariantFound;
  const profiling = profileBeside(services);
  if (profiling) found.profiling = profiling;
  return { services, found, said, evaluated };
}

test('the profiler starts before the build, launches the verified kernel, and the kernel is not profiled a second time', async () => {
  const { services, found, said, evaluated } = jobOn({});
  expect(said).toEqual(['ready']);
  expect(profileVerifiedPhase.wants(services, found)).toBe(true);
  await profileVerifiedPhase.run(services, found);
  // The device is free: the next timing does not wait for the counters.
  expect([said.at(-1), found.result.profile]).toEqual(['launched kernel.cubin', undefined]);
  evaluated.resolve();
  expect(profileReadPhase.wants(services, found)).toBe(true);
  await profileReadPhase.run(services, found);
  expect(said).toEqual(['ready', 'phaseStarted', 'launched kernel.cubin', 'profileResult']);
  expect(found.result.profile?.listings.map(({ language, missing }) => [language, missing])).toEqual([
    ['SASS', 'nvdisasm was not found'],
    ['PTX', 'run the kernel with --keep-ptx'],
  ]);
  expect(profilePhase.wants(services, found)).toBe(false);
  await found.profiling!.drop();
});

test('a profile dropped during its evaluation gives no result, and the phase that waits for it gets an error', async () => {
  const { services, found } = jobOn({});
  await profileVerifiedPhase.run(services, found);
  await found.profiling!.drop();
  await expect(profileReadPhase.run(services, found)).rejects.toThrow('not wanted any more');
  expect(found.result.profile).toBeUndefined();
});

test('a wrong kernel is not launched, and its profile is dropped', async () => {
  const { found, said } = jobOn({});
  await found.profiling!.drop();
  expect(said).toEqual(['ready', 'dropped']);
  expect(found.result.profile).toBeUndefined();
});

test('on the emulator, the profile is taken after the benchmark', () => {
  const { services, found, said } = jobOn({ simulated: true });
  expect([said, profileVerifiedPhase.wants(services, found), profilePhase.wants(services, found)]).toEqual([
    [],
    false,
    true,
  ]);
});

test('the finding about bank conflicts names every line with as many, and no ratio that one request cannot have', () => {
  const messageOf = (perRequest: number, conflicts: readonly number[]): string | undefined =>
    profileFindings(
      create(ProfileResultSchema, {
        shape: create(ShapeSchema, { batch: 1, heads: 1, sequenceLength: 64, headDim: 64 }),
        metrics: Object.entries({ smem_bank_conflict_percent: 40, smem_wavefronts_per_request: perRequest }).map(
          ([name, value]) => create(MetricSchema, { name, value }),
        ),
        lines: conflicts.map((count, index) =>
          create(LineProfileSchema, { file: 'k.cu', line: index + 1, bankConflicts: BigInt(count) }),
        ),
      }),
    )[0]?.message;
  expect(messageOf(42.2, [700, 100, 700, 699])).toBe(
    '1x1x64x64: bank conflicts are 40.0 % of the shared-memory wavefronts; most of them at k.cu:1, 3 and 4',
  );
  expect(messageOf(5.4, [700, 100])).toMatch(/and a request takes 5\.4 of them; most of them at k\.cu:1$/);
  expect(
    messageOf(
      5.4,
      Array.from({ length: 9 }, () => 7),
    ),
  ).toMatch(/most of them at k\.cu:1, and as many on 8 other lines$/);
});
