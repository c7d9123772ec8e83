/** A kernel of two entries of which one is waited for: what it is compiled to apart, and in the whole. */
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ResolvedVariant } from '@flashcore/shared/kernels';
import { missing } from '@flashcore/shared/testing';
import { afterAll, expect, test } from 'vitest';
import { ArtifactStore } from '../store/artifacts.ts';
import { BuildTools } from './build-tools.ts';
import { differingEntries } from './cubin-code.ts';
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
function build(name: string, first: readonly string[], source = SOURCE): Promise<KernelBuild> {
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
      launches: [],
      first,
    },
    { signal: AbortSignal.timeout(60_000) },
  );
}

test.skipIf(missing('nvcc'))(
  'what is waited for has the code that it has in the whole, and nothing else',
  async () => {
    const part = await build('right', ['always', 'twice']);
    const whole = await part.rest!.whole;
    expect([part.result.buildId, part.findings, whole.findings]).toEqual([whole.result.buildId, [], []]);
    expect(part.rest!.first).toEqual(['always', 'twice']);
    expect(differingEntries(part.image!, whole.image!, ['always', 'twice'])).toEqual([]);
    // It is not there.
    expect(differingEntries(part.image!, whole.image!, ENTRIES)).toEqual(['thrice']);
    expect(whole.rest).toBeUndefined();
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
    const part = await build('depends', ['always', 'twice'], depends);
    const whole = await part.rest!.whole;
    expect(differingEntries(part.image!, whole.image!, part.rest!.first)).toEqual(['always']);
  },
  60_000,
);
