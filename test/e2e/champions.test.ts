/** Champions in a user's folder: one runner accepts a kernel, another runs it again and accepts it. */
import { cpSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ownersKernels } from '@flashcore/runner/testing-daemon';
import { readSourceTree, treeDigest } from '@flashcore/shared/kernels';
import { edited } from '@flashcore/shared/testing';
import { Home, ROOT, type CommandResult } from '../support/home.ts';

/** The fields of champions.json that these tests use. */
interface ChampionsFile {
  champions: { label: string; deviceName: string; buildId: string; latency?: unknown }[];
  builds: Record<string, { sources: string; digest: string; variant: { parameters?: Record<string, string> } }>;
}
interface Loaded {
  state: string;
  reason: string;
  job: string;
}

const first = new Home();
const second = new Home();
let kernels: string;
let repository: string;
let saved: string;

beforeAll(async () => {
  // The owner's cases are small, so a ranked run takes seconds.
  kernels = ownersKernels(first.path);
  for (const home of [first, second]) await home.startDaemonAt('127.0.0.1:0', '--kernels', kernels);
  repository = join(first.path, 'my répository');
  saved = join(repository, 'champions');
  const kernel = join(repository, 'my_kernel');
  mkdirSync(repository);
  cpSync(join(ROOT, 'kernels/fa_v1_baseline'), kernel, { recursive: true });
  edit(join(kernel, 'kernel.yaml'), (text) => edited(text, /^id: .*$/m, 'id: my_kernel'));
  writeFileSync(join(kernel, 'an odd näme.cuh'), '// nothing\n');
  edit(join(kernel, 'fa_v1_baseline.cu'), (text) => `#include "an odd näme.cuh"\n${text}`);
});
afterAll(() => Promise.all([first, second].map((home) => home[Symbol.asyncDispose]())));

const edit = (file: string, change: (text: string) => string): void =>
  writeFileSync(file, change(readFileSync(file, 'utf8')));
const championsFile = (folder: string): ChampionsFile =>
  JSON.parse(readFileSync(join(folder, 'champions.json'), 'utf8')) as ChampionsFile;

/** Runs `champions --load` and returns its answer about the only champion. */
function load(home: Home, folder: string): CommandResult & { loaded: Loaded } {
  const result = home.faTui(['champions', '--load', folder, '--json']);
  return { ...result, loaded: (JSON.parse(result.stdout) as Loaded[])[0]! };
}

/** A copy of the folder with a changed kernel or champions.json, and the digest updated to match. */
async function changed(name: string, change: (source: string, file: ChampionsFile) => void): Promise<string> {
  const folder = join(repository, name);
  cpSync(saved, folder, { recursive: true });
  const file = championsFile(folder);
  const [build] = Object.values(file.builds);
  const sources = join(folder, build!.sources);
  change(join(sources, 'fa_v1_baseline.cu'), file);
  build!.digest = treeDigest((await readSourceTree(sources)).tree);
  build!.sources = `sources/${build!.digest.slice(0, 16)}/my_kernel`;
  if (join(folder, build!.sources) !== sources) cpSync(sources, join(folder, build!.sources), { recursive: true });
  writeFileSync(join(folder, 'champions.json'), JSON.stringify(file));
  return folder;
}

test('accept --save writes the champion with its sources as they were when it was built', () => {
  const { response, exitCode } = first.runJson(['run', join(repository, 'my_kernel'), '--set', 'BF16=1']);
  expect(exitCode).toBe(0);
  const result = first.faTui(['accept', response.job!.name, '--note', 'the first', '--save'], { cwd: repository });
  expect([result.exitCode, result.stdout]).toEqual([0, expect.stringContaining('my_kernel')]);
  const { champions, builds } = championsFile(saved);
  expect(champions).toMatchObject([{ kernelId: 'my_kernel', decision: { note: 'the first' } }]);
  const { sources, variant } = builds[champions[0]!.buildId]!;
  expect(variant.parameters).toMatchObject({ BF16: '1' });
  for (const name of readdirSync(join(repository, 'my_kernel')))
    expect(readFileSync(join(saved, sources, name)), name).toEqual(readFileSync(join(repository, 'my_kernel', name)));
});

test('champions --save adds only the champions that the folder lacks', () => {
  const before = readFileSync(join(saved, 'champions.json'), 'utf8');
  expect(first.faTui(['champions', '--save', saved]).exitCode).toBe(0);
  expect(readFileSync(join(saved, 'champions.json'), 'utf8')).toBe(before);
});

test('new --from a build copies the sources that the build was made from', () => {
  const { response } = first.runJson(['build', 'fa_v2_wmma']);
  const { buildId } = response.result!.variants[0]!.build!;
  const { exitCode, stderr } = first.faTui(['new', 'a_copy', '--from', buildId], { cwd: repository });
  expect(exitCode, stderr).toBe(0);
  expect(readFileSync(join(repository, 'a_copy', 'kernel.yaml'), 'utf8')).toContain('id: a_copy');
  expect(readdirSync(join(repository, 'a_copy'))).toContain('a_copy.cu');
});

test('a second runner runs a saved champion again and accepts it only once', () => {
  const { exitCode, loaded } = load(second, saved);
  expect([exitCode, loaded]).toEqual([0, expect.objectContaining({ state: 'accepted', reason: '' })]);
  const champions = second.faTui(['champions', '--json']);
  expect(JSON.parse(champions.stdout)).toMatchObject({
    champions: [
      {
        job: loaded.job,
        label: expect.stringContaining('my_kernel') as string,
        decision: { note: expect.stringMatching(/^saved champion, accepted .*: the first$/) as string },
      },
    ],
  });
  const again = load(second, saved);
  expect([again.exitCode, again.loaded]).toMatchObject([0, { state: 'champion already', job: loaded.job }]);
});

test('a saved champion whose kernel is wrong is run and not accepted', async () => {
  const folder = await changed('wrong', (source) =>
    edit(source, (text) => edited(text, '= scale * LOG2_E', '= 1.05f * scale * LOG2_E')),
  );
  const { exitCode, loaded } = load(second, folder);
  expect([exitCode, loaded.state]).toEqual([1, 'not accepted']);
  expect(loaded.reason).toContain('rejected by "Parity cases"');
});

test.each([
  ['of another device', (_: string, { champions }: ChampionsFile) => (champions[0]!.deviceName = 'NVIDIA L4'), 1],
] as const)('a champion %s is left to other runners', async (name, change, code) => {
  const { exitCode, loaded } = load(second, await changed(name, change));
  expect([exitCode, loaded]).toMatchObject([
    code,
    { state: 'no such device', reason: expect.stringMatching(/CPU emulator/) as string },
  ]);
});

test.each([
  ['text instead of JSON', () => 'sources'],
  ['another format', (text: string) => edited(text, 'flashcore-champions/1', 'flashcore-champions/9')],
  ['a path out of the folder', (text: string) => edited(text, /"sources": "[^"]*"/, '"sources": "../../my_kernel"')],
  ['no builds', (text: string) => edited(text, /"builds"/, '"others"')],
])('champions.json with %s is refused before anything runs', (name, change) => {
  const folder = join(repository, name);
  cpSync(saved, folder, { recursive: true });
  edit(join(folder, 'champions.json'), change);
  const { exitCode, stderr } = second.faTui(['champions', '--load', folder]);
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining('champions.json: must be a file of')]);
});

test('a saved champion whose sources were changed is neither run nor overwritten', () => {
  const folder = join(repository, 'edited');
  cpSync(saved, folder, { recursive: true });
  const file = championsFile(folder);
  file.champions[0]!.label = 'my_kernel as something else';
  writeFileSync(join(folder, 'champions.json'), JSON.stringify(file));
  edit(join(folder, Object.values(file.builds)[0]!.sources, 'fa_v1_baseline.cu'), (text) => `${text}// mine\n`);
  for (const [home, option] of [
    [second, '--load'],
    [first, '--save'],
  ] as const) {
    const { exitCode, stdout, stderr } = home.faTui(['champions', option, folder]);
    expect([exitCode, stdout + stderr], option).toEqual([
      1,
      expect.stringMatching(/was changed since it\s+was\s+saved/),
    ]);
  }
});

test('a champion that cannot be loaded does not stop the next one, and the report lists both', () => {
  const folder = join(repository, 'two');
  cpSync(saved, folder, { recursive: true });
  const file = championsFile(folder);
  const [one] = file.champions;
  const [build] = Object.values(file.builds);
  const digest = 'f'.repeat(64);
  const gone = { ...one!, buildId: '0'.repeat(64), shapes: [{ batch: 9, heads: 9, sequenceLength: 9, headDim: 64 }] };
  file.champions.unshift(gone);
  file.builds[gone.buildId] = { ...build!, digest, sources: `sources/${digest.slice(0, 16)}/my_kernel` };
  writeFileSync(join(folder, 'champions.json'), JSON.stringify(file));
  const { exitCode, stdout } = second.faTui(['champions', '--load', folder, '--json']);
  expect([exitCode, JSON.parse(stdout)]).toMatchObject([
    1,
    [
      { state: 'not accepted', reason: expect.stringMatching(/is missing: restore it/) as string },
      { state: 'champion already' },
    ],
  ]);
});

test('options that contradict each other, and a folder without champions, are usage errors', () => {
  expect(second.faTui(['champions', '--save', '--load'])).toMatchObject({ exitCode: 2 });
  expect(second.faTui(['champions', '--load', join(repository, 'my_kernel')])).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining('cannot be read (ENOENT)') as string,
  });
});
