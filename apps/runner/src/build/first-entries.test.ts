/** A kernel of a few entries of which some are waited for: what they are compiled to apart, and in the whole. */
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ResolvedVariant } from '@flashcore/shared/kernels';
import { missing } from '@flashcore/shared/testing';
import { afterAll, expect, test } from 'vitest';
import { ArtifactStore } from '../store/artifacts.ts';
import { BuildTools } from './build-tools.ts';
import { differingEntries, hasVariables } from './cubin-code.ts';
import { fileWith, type ImagePart } from './device-image.ts';
import type { ShapeLaunch } from './entry-resources.ts';
import { partsOf } from './entry-parts.ts';
import type { KernelBuild } from './kernel-builder.ts';

const ROOT = new URL('../../../..', import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), 'flashcore-first-entries-'));
afterAll(() => rmSync(folder, { recursive: true }));

const SOURCE = `#include "mechanisms/first_entries.cuh"
template <int FACTOR>
__device__ void scale(float* values) { values[threadIdx.x] *= FACTOR; }
#define ENTRY(NAME, FACTOR) \\
  extern "C" __global__ void NAME(float* values) { if constexpr (FLASHCORE_WANTED(NAME)) scale<FACTOR>(values); }
ENTRY(twice, 2)
ENTRY(thrice, 3)
extern "C" __global__ void always(float* values) { scale<5>(values); }
`;
const ENTRIES = ['twice', 'thrice', 'always'];

/** Builds it where nothing of it was compiled before. */
function build(
  name: string,
  first: readonly (readonly string[])[],
  { source = SOURCE, partsAtOnce = 1 }: { source?: string; partsAtOnce?: number } = {},
): Promise<KernelBuild> {
  const own = join(folder, name);
  mkdirSync(join(own, 'kernel'), { recursive: true });
  mkdirSync(join(own, 'kernels'));
  cpSync(join(ROOT, 'kernels/mechanisms'), join(own, 'kernels/mechanisms'), { recursive: true });
  writeFileSync(join(own, 'kernel/kernel.cu'), source);
  const tools = new BuildTools({
    repositoryRoot: ROOT,
    dataDirectory: own,
    kernelsFolder: join(own, 'kernels'),
    artifacts: new ArtifactStore(join(own, 'artifacts')),
    partsAtOnce,
  });
  const resolved = { defines: [], fastMath: false, maxRegisters: 0, parameters: {}, constants: {} };
  return tools.kernels.build(
    {
      kernelId: 'kernel',
      folder: join(own, 'kernel'),
      source: 'kernel.cu',
      resolved: resolved as unknown as ResolvedVariant,
      arch: 'sm_90',
      emulated: false,
      entries: ENTRIES,
      launches: ENTRIES.map(
        (entry) => ({ entry, grid: [1, 1, 1], block: [32, 1, 1], sharedBytes: 0 }) as unknown as ShapeLaunch,
      ),
      first,
    },
    { signal: AbortSignal.timeout(60_000) },
  );
}

const pathOf = ({ image }: KernelBuild): string => image as string;

test.skipIf(missing('nvcc'))(
  'what is waited for has the code that it has in the whole, and nothing else',
  async () => {
    const part = await build('right', [['always'], ['twice', 'always']]);
    const whole = await part.rest!.whole;
    expect([part.result.buildId, part.findings, whole.findings]).toEqual([whole.result.buildId, [], []]);
    expect(part.rest!.parts).toEqual([{ path: expect.any(String) as string, entries: ['always', 'twice'] }]);
    const [{ path }] = part.rest!.parts as [ImagePart];
    expect(differingEntries(path, pathOf(whole), ['always', 'twice'])).toEqual([]);
    // It is not there.
    expect(differingEntries(path, pathOf(whole), ENTRIES)).toEqual(['thrice']);
    expect(whole.rest).toBeUndefined();
  },
  60_000,
);

test.skipIf(missing('nvcc'))(
  'entries that no launch has together are compiled side by side, each to what it is in the whole',
  async () => {
    const part = await build('apart', [['twice'], ['always']], { partsAtOnce: 2 });
    const whole = await part.rest!.whole;
    expect(part.rest!.parts.map(({ entries }) => entries)).toEqual([['always'], ['twice']]);
    for (const { path, entries } of part.rest!.parts)
      expect(differingEntries(path, pathOf(whole), ENTRIES)).toEqual(ENTRIES.filter((each) => each !== entries[0]));
    expect(part.result.entries.map(({ entry }) => entry).sort()).toEqual(['always', 'twice']);
    expect([part.result.buildId, part.result.runs.length]).toEqual([whole.result.buildId, 1]);
    expect([fileWith(part.image!, ['always']), fileWith(part.image!, ['twice'])]).toEqual([
      part.rest!.parts[0]!.path,
      part.rest!.parts[1]!.path,
    ]);
    expect(() => fileWith(part.image!, ['always', 'twice'])).toThrow('has always, twice together');
  },
  60_000,
);

test.skipIf(missing('nvcc'))(
  'entries that share a variable are not compiled apart: the whole is waited for',
  async () => {
    const shares = SOURCE.replace('values[threadIdx.x] *=', 'launches += 1; values[threadIdx.x] *= launches *').replace(
      'template',
      '__device__ int launches;\ntemplate',
    );
    const { rest, image } = await build('shares', [['twice'], ['always']], { source: shares, partsAtOnce: 2 });
    expect([rest, hasVariables(image as string)]).toEqual([undefined, true]);
  },
  60_000,
);

test.skipIf(missing('nvcc'))(
  'an entry whose code depends on what is compiled beside it is told',
  async () => {
    const depends = SOURCE.replace('scale<5>', 'scale<FIVE>').replace(
      'template',
      '#ifdef FLASHCORE_FIRST\n#define FIVE 6\n#else\n#define FIVE 5\n#endif\ntemplate',
    );
    const part = await build('depends', [['always', 'twice']], { source: depends });
    const whole = await part.rest!.whole;
    const [{ path, entries }] = part.rest!.parts as [ImagePart];
    expect(differingEntries(path, pathOf(whole), entries)).toEqual(['always']);
  },
  60_000,
);

test('entries of one launch, and what has an entry in common, are one part', () => {
  expect(partsOf([['a'], ['b', 'c'], ['d'], ['c', 'e'], ['a']], 9)).toEqual([['b', 'c', 'e'], ['a'], ['d']]);
  expect(partsOf([['a', 'b'], ['c'], ['d'], ['e']], 2)).toEqual([
    ['a', 'b', 'e'],
    ['c', 'd'],
  ]);
  expect(partsOf([], 2)).toEqual([]);
});
