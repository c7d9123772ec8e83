import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
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
  FlashcoreError,
  sha256Of,
  type Champion,
  SourceFileSchema,
} from '@flashcore/shared/contract';
import { formatShape, parseShape, treeDigest } from '@flashcore/shared/kernels';
import { readChampions, saveChampions } from './champions-folder.ts';

const SOURCE = readFileSync(path.join(import.meta.dirname, '../../../../kernels/fa_v1_baseline/kernel.yaml'));

/** The kernel id in the manifest. */
const KERNEL_ID = 'fa_v1_baseline';

interface ChampionsFile {
  champions: { kernelId: string }[];
  builds: Record<string, { digest: string; sources: string }>;
}

let root: string;
let folder: string;
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), 'fc-champions-'));
  folder = path.join(root, 'champions');
});
afterEach(() => rmSync(root, { recursive: true }));

/** The digest of a build with a single file of this name; the folder is named after it. */
const digestOf = (name: string): string =>
  treeDigest({ files: [create(SourceFileSchema, { path: name, sha256: sha256Of(SOURCE) })] }).slice(0, 16);

/** A runner whose builds consist of a single file with this name. */
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

const championOn = (
  shapes: readonly string[],
  { acceptedAt = 0, kernelId = KERNEL_ID, buildId = 'b' } = {},
): Champion =>
  create(ChampionSchema, {
    label: `${kernelId} ${buildId}`,
    kernelId,
    buildId,
    deviceName: 'NVIDIA L4',
    shapes: shapes.map((shape) => parseShape(shape)),
    decision: create(DecisionSchema, { time: timestampFromMs(acceptedAt * 1000) }),
  });

test.each(['../k.cu', '/tmp/k.cu', 'a/../../k.cu', 'a//k.cu', './k.cu', 'a\\k.cu', 'k\n.cu', '.bashrc', 'hook.sh'])(
  'if a runner names %j as a source, no file is written',
  async (name) => {
    const [answer] = await saveChampions(folder, [championOn(['1x1x64x64'])], runnerWith(name));
    expect(answer).toMatchObject({
      reason: expect.stringContaining("as a kernel's sources: nothing is written") as string,
    });
    expect(readdirSync(root, { recursive: true })).toEqual(['champions']);
  },
);

test('a kernel id that is a path is refused', async () => {
  const champion = championOn(['1x1x64x64'], { kernelId: '../../k' });
  const [answer] = await saveChampions(folder, [champion], runnerWith('kernel.yaml'));
  expect(answer).toMatchObject({ reason: expect.stringContaining('nothing is written') as string });
  expect(existsSync(path.join(folder, 'sources'))).toBe(false);
});

test('files that do not make a kernel folder are not saved', async () => {
  const [answer] = await saveChampions(folder, [championOn(['1x1x64x64'])], runnerWith('k.cu'));
  expect(answer).toMatchObject({ reason: expect.stringContaining('there is no') as string });
  expect(readdirSync(path.join(folder, 'sources', digestOf('k.cu')))).toEqual([]);
});

test.each(['sources', 'sources/DIGEST'])('a link in place of %s is not followed', async (link) => {
  const outside = path.join(root, 'outside');
  mkdirSync(outside);
  const place = path.join(folder, link.replace('DIGEST', digestOf('kernel.yaml')));
  mkdirSync(path.dirname(place), { recursive: true });
  symlinkSync(outside, place);
  const saved = saveChampions(folder, [championOn(['1x1x64x64'])], runnerWith('kernel.yaml'));
  await expect(
    saved.then(([answer]) => Promise.reject(new Error((answer as { reason: string }).reason))),
  ).rejects.toThrow('is a link');
  expect(readdirSync(outside)).toEqual([]);
});

test('a champion does not replace one that was accepted later', async () => {
  const runner = runnerWith('kernel.yaml');
  await saveChampions(folder, [championOn(['1x1x64x64'], { acceptedAt: 9, buildId: 'new' })], runner);
  const [answer] = await saveChampions(folder, [championOn(['1x1x64x64'], { acceptedAt: 3, buildId: 'old' })], runner);
  expect(answer).toMatchObject({ reason: expect.stringContaining('accepted later') as string });
  expect(readChampions(folder).map(({ champion }) => champion.buildId)).toEqual(['new']);
});

test('saves the other champions even if the runner lost the sources of one', async () => {
  const runner = runnerWith('kernel.yaml');
  const lossy = {
    ...runner,
    getKernel: (request: { buildId: string }) =>
      request.buildId === 'lost'
        ? Promise.reject(new FlashcoreError('SOURCES_MISSING', {}, 'they are not here'))
        : runner.getKernel(request),
  } as RunnerClient;
  const champions = ['lost', 'kept'].map((buildId, index) =>
    championOn(['1x1x64x64'], { buildId, kernelId: KERNEL_ID, acceptedAt: index }),
  );
  const answers = await saveChampions(folder, champions, lossy);
  expect(answers).toMatchObject([
    { reason: expect.stringMatching(/they are not here/) as string },
    { sources: expect.stringMatching(/^sources/) as string },
  ]);
  expect(readChampions(folder).map(({ champion }) => champion.buildId)).toEqual(['kept']);
});

test.each<[string, (file: ChampionsFile) => void, string]>([
  [
    'whose kernel id differs from its folder',
    ({ champions: [one] }) => (one!.kernelId = 'mine'),
    'must be the folder of its kernel',
  ],
  ['that appears twice', ({ champions }) => champions.push(champions[0]!), 'another entry has the same kernel'],
  ['without a digest', ({ builds }) => (builds['b']!.digest = 'f00'), 'must be a SHA-256'],
  [
    'whose sources are in the folder of another digest',
    ({ builds }) => (builds['b']!.sources = `sources/${'0'.repeat(16)}/k`),
    'must be the folder of its',
  ],
])('refuses a file with an entry %s', async (_, change, reason) => {
  await saveChampions(folder, [championOn(['1x1x64x64'])], runnerWith('kernel.yaml'));
  const place = path.join(folder, 'champions.json');
  const file = JSON.parse(readFileSync(place, 'utf8')) as ChampionsFile;
  change(file);
  writeFileSync(place, JSON.stringify(file));
  expect(() => readChampions(folder)).toThrow(reason);
});

test('the error about a huge champions.json is short', () => {
  mkdirSync(folder);
  writeFileSync(path.join(folder, 'champions.json'), JSON.stringify({ format: 'x'.repeat(3e6) }));
  expect(() => readChampions(folder)).toThrow(/^.{1,400}$/);
});

test('a champion takes over the shapes that it was accepted on, and the earlier champion keeps the others', async () => {
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

test('champions are loaded in the order of their acceptances, whatever their order in the file', async () => {
  const later = championOn(['1x1x64x64'], { acceptedAt: 9 });
  const earlier = championOn(['2x1x64x64'], { acceptedAt: 3, buildId: 'y' });
  await saveChampions(folder, [later, earlier], runnerWith('kernel.yaml'));
  expect(readChampions(folder).map(({ champion }) => champion.buildId)).toEqual(['y', 'b']);
});
