import { readFileSync } from 'node:fs';
import { create } from '@bufbuild/protobuf';
import { DeviceSchema, type FieldViolation, type FlashcoreError } from '@flashcore/shared/contract';
import { parseManifest, parseShape, resolveVariant } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { requireMemory, type MemoryUses } from './device-memory.ts';

const GIB = 1024n ** 3n;
const device = create(DeviceSchema, { deviceId: 'gpu0', arch: 'sm_89', memoryBytes: GIB });
const FITS = parseShape('1x1x64x64');
// 4 tensors of 160 MiB: a set takes 0.6 GiB.
const HALF = parseShape('1x20x65536x64');
const LARGE = parseShape('1x40x65536x64');

/** Violations of a request for flashcore_v6; `more` extends its manifest. */
function violations(uses: Partial<MemoryUses>, more = ''): FieldViolation[] {
  const manifest = parseManifest(
    readFileSync(new URL('../../../../kernels/flashcore_v6/kernel.yaml', import.meta.url), 'utf8') + more,
    'flashcore_v6',
  );
  const none = { asked: {}, verify: undefined, benchmark: undefined, profile: undefined };
  try {
    requireMemory(
      device,
      { manifest, resolved: resolveVariant(manifest, undefined, device) },
      { method: 'runExperiment', ...none, ...uses },
    );
    return [];
  } catch (error) {
    return (error as FlashcoreError).violations;
  }
}

test('a shape that fits once but not twice is verified and profiled, but not timed', () => {
  const shapes = [FITS, HALF];
  expect(violations({ verify: { shapes }, profile: { shape: HALF } })).toEqual([]);
  expect(violations({ asked: { benchmark: { shapes } }, verify: { shapes }, benchmark: { shapes } })).toEqual([
    {
      field: 'benchmark.shapes[1]',
      description:
        'must be a shape that fits into the 1.0 GiB of gpu0, got 1x20x65536x64, which takes 1.3 GiB (2 sets of Q, K, V, O)',
    },
  ]);
});

test('a violation names the field of the part of the request that caused it', () => {
  const shapes = [LARGE];
  const fields = (uses: Partial<MemoryUses>): string[] => violations(uses).map(({ field }) => field);
  const of = { asked: { verify: { shapes }, benchmark: { shapes } }, verify: { shapes }, benchmark: { shapes } };
  expect([
    fields({ ...of, profile: { shape: LARGE } }),
    fields({ ...of, method: 'benchmark' }),
    fields({ method: 'verify', asked: of.asked, verify: { shapes } }),
    fields({ method: 'profile', profile: { shape: LARGE } }),
    fields({ method: 'verify', verify: { shapes } }),
  ]).toEqual([
    ['verify.shapes[0]', 'benchmark.shapes[0]', 'profile.shape'],
    ['settings.shapes[0]'],
    ['settings.shapes[0]'],
    ['settings.shape'],
    ['settings.shapes'],
  ]);
});

test('the workspace adds to the needed memory; a shape that the kernel does not take is ignored', () => {
  const shapes = [HALF, parseShape('1x40x65536x96')];
  const partial = 'workspace: { partial: "B * H * S * D * 8" }\n';
  expect([
    violations({ method: 'verify', verify: { shapes } }),
    violations({ method: 'verify', verify: { shapes } }, partial).map(({ description }) => description),
  ]).toEqual([
    [],
    [
      'must be a shape that fits into the 1.0 GiB of gpu0, got 1x20x65536x64, which takes 1.3 GiB (1 set of Q, K, V, O and workspace)',
    ],
  ]);
});
