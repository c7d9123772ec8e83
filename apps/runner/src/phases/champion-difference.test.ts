import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { ComparisonResultSchema } from '@flashcore/shared/contract';
import { parseShape, type ResolvedVariant } from '@flashcore/shared/kernels';
import { afterEach, expect, test } from 'vitest';
import type { ResolvedKernel } from '../kernels.ts';
import { championDifference, type DifferenceSide } from './champion-difference.ts';

const SOURCE = `// NAME: a kernel to copy.
extern "C" __global__ void NAME(const half* Q,
                                half* O) {
  __syncthreads();
  O[threadIdx.x] = Q[threadIdx.x];
}
`;

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

/** A kernel of this name in a folder of its own. */
function side(name: string, text: string): DifferenceSide {
  const folder = mkdtempSync(join(tmpdir(), 'fc-difference-'));
  folders.push(folder);
  writeFileSync(join(folder, `${name}.cu`), text.replaceAll('NAME', name));
  const kernel = {
    ...{ kernelId: name, folder, files: [{ path: `${name}.cu`, sha256: name }] },
    manifest: { source: `${name}.cu`, launches: [{ entry: name }] },
  } as unknown as ResolvedKernel;
  const resolved = { parameters: {}, maxRegisters: 0, fastMath: false, flags: [] } as unknown as ResolvedVariant;
  return { label: name, kernel, resolved, build: undefined, profile: undefined };
}

const differing = (candidate: string) => ({
  champion: side('original', SOURCE),
  candidate: side('mine', candidate),
  championJob: undefined,
  comparison: undefined,
});

test('renamed entries and new indentation do not count as changes of a copy', () => {
  const copy = SOURCE.replace('  __syncthreads', '      __syncthreads').replace(
    '                                half',
    ' half',
  );
  expect(championDifference(differing(copy))).toMatchObject({ sources: [], changes: 0 });
  const changed = championDifference(differing(copy.replace('Q[threadIdx.x]', 'Q[threadIdx.x + 1]')));
  expect(changed).toMatchObject({ sources: [{ path: 'mine.cu', linesAdded: 1, linesRemoved: 1 }], changes: 1 });
  expect(changed.warning).toBeUndefined();
});

test('cycles are shown as a ratio too; those of the emulator are left out', () => {
  const figures = (simulated: boolean) => {
    const shapes = [{ shape: parseShape('1x4x128x64'), cycles: { ratio: 1.948, low: 1.9, high: 2 }, simulated }];
    const comparison = create(ComparisonResultSchema, { shapes });
    return championDifference({ ...differing(SOURCE), comparison }).figures;
  };
  expect(figures(false)).toMatchObject([{ champion: 1.948, candidate: 1, unit: "x the candidate's" }]);
  expect(figures(true)).toEqual([]);
});
