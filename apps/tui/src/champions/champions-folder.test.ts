import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { RunnerClient } from '@flashcore/shared/client';
import {
  ChampionSchema,
  DecisionSchema,
  GetKernelResponseSchema,
  sha256Of,
  type Champion,
} from '@flashcore/shared/contract';
import { formatShape, parseShape } from '@flashcore/shared/kernels';
import { readChampions, saveChampions } from './champions-folder.ts';

const SOURCE = readFileSync(path.join(import.meta.dirname, '../../../../kernels/fa_v1_baseline/kernel.yaml'));

let root: string;
let folder: string;
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), 'fc-champions-'));
  folder = path.join(root, 'champions');
});
afterEach(() => rmSync(root, { recursive: true }));

/** A runner whose every build is of one file of that name. */
const runnerWith = (name: string) =>
  ({
    getKernel: () =>
      Promise.resolve(
        create(GetKernelResponseSchema, {
          kernel: { files: [{ path: name, sha256: sha256Of(SOURCE), sizeBytes: BigInt(SOURCE.length) }] },
        }),
      ),
    readArtifact: () => Promise.resolve(SOURCE),
  }) as unknown as RunnerClient;

const championOn = (shapes: readonly string[], { acceptedAt = 0, kernelId = 'k', buildId = 'b' } = {}): Champion =>
  create(ChampionSchema, {
    label: `${kernelId} ${buildId}`,
    kernelId,
    buildId,
    deviceName: 'NVIDIA L4',
    shapes: shapes.map((shape) => parseShape(shape)),
    decision: create(DecisionSchema, { time: timestampFromMs(acceptedAt * 1000) }),
  });

test.each(['../k.cu', '/tmp/k.cu', 'a/../../k.cu', 'a//k.cu', './k.cu', 'a\\k.cu', 'k\n.cu', '.bashrc', 'hook.sh'])(
  'a runner that names %j as a source has nothing written',
  async (name) => {
    await expect(saveChampions(folder, [championOn(['1x1x64x64'])], runnerWith(name))).rejects.toMatchObject({
      reason: 'INVALID_REQUEST',
    });
    expect(readdirSync(root, { recursive: true })).toEqual(['champions']);
  },
);

test('a kernel id that is a path is refused as well', async () => {
  const champion = championOn(['1x1x64x64'], { kernelId: '../../k' });
  await expect(saveChampions(folder, [champion], runnerWith('k.cu'))).rejects.toMatchObject({
    reason: 'INVALID_REQUEST',
  });
  expect(existsSync(path.join(folder, 'sources'))).toBe(false);
});

test('a champion takes the shapes that it was accepted on, and the rest stays with the one before it', async () => {
  const runner = runnerWith('kernel.yaml');
  await saveChampions(folder, [championOn(['1x1x64x64', '2x2x64x64'], { acceptedAt: 1 })], runner);
  await saveChampions(folder, [championOn(['1x1x64x64'], { acceptedAt: 2, buildId: 'c' })], runner);
  const shapes = (): unknown[] =>
    readChampions(folder).map(({ champion }) => [champion.buildId, champion.shapes.map((shape) => formatShape(shape))]);
  expect(shapes()).toEqual([
    ['b', ['2x2x64x64']],
    ['c', ['1x1x64x64']],
  ]);
  await saveChampions(folder, [championOn(['2x2x64x64'], { acceptedAt: 3, buildId: 'd' })], runner);
  expect(shapes()).toEqual([
    ['c', ['1x1x64x64']],
    ['d', ['2x2x64x64']],
  ]);
});

test('champions are loaded in the order of their acceptances, whatever the file has', async () => {
  const later = championOn(['1x1x64x64'], { acceptedAt: 9, kernelId: 'a' });
  const earlier = championOn(['1x1x64x64'], { acceptedAt: 3, kernelId: 'z', buildId: 'y' });
  await saveChampions(folder, [later, earlier], runnerWith('k.cu'));
  expect(readChampions(folder).map(({ champion }) => champion.kernelId)).toEqual(['z', 'a']);
});
