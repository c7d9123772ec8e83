/**
 * A sample of the corpus on the emulator: every cheat is caught, or corpus.yaml says why it is not, and honest kernels
 * pass. The whole corpus takes over ten minutes; `node test/dist/corpus.js` runs it (docs/hosting.md).
 */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ALL_TESTS, inFull, missing } from '@flashcore/shared/testing';
import { repositoryRoot } from '../support/repository-root.ts';
import { cheatsInFolder, isAnswered, nameOf, readCorpus } from './corpus.ts';
import { compileErrors, runCorpus } from './run-corpus.ts';

const { families, cheats, honest } = readCorpus();
// Each of these cheats is detected by a different rule. The other cheats of their families take as long and would add
// no coverage.
const CHEATS = ['e4m3_keys_and_values', 'child_launch', ...(ALL_TESTS ? ['function_static'] : [])];
// This cheat relies on reading unwritten memory. The PTX engine reports such a read. The fibre engine does not check
// for it, and the memory holds noise there, so the cheat has no effect.
const CAUGHT_ON_PTX = ['flags_never_reset'];
const HONEST = ['honest_ways WAY=1', 'honest_ways WAY=17'];
/** Number of seeds on a tiny shape, for each honest kernel. */
const SEEDS = ALL_TESTS ? 50 : 5;

test('there are at least 20 families, 60 cheats and 60 honest kernels', () => {
  expect([Object.keys(families).length >= 20, cheats.length >= 60, honest.length >= 60]).toEqual([true, true, true]);
});

test('cheatsInFolder() finds kernels that corpus.yaml does not list, and throws if a folder has no kernel', () => {
  const root = repositoryRoot();
  const found = cheatsInFolder(join(root, 'kernels/cheating')).find(({ name }) => name === 'small_values');
  expect(found).toMatchObject({
    family: 'cheating',
    parameters: {},
    kernel: join(root, 'kernels/cheating/small_values'),
  });
  expect(() => cheatsInFolder(join(root, 'kernels/reference'))).toThrow(/kernel\.yaml .*found none/);
});

test.each(inFull(['kernels/corpus'], () => false))('every cheat of %s compiles', { timeout: 900_000 }, async () => {
  const folders = new Map(cheats.map((each) => [each.kernel, each]));
  expect(await compileErrors([...folders.values()])).toEqual([]);
});

test('a cheat that does not compile is neither caught nor known', () => {
  const judged = { rule: 'no_gain', passes: { gpu: 'known' }, caught: false };
  expect(isAnswered(judged, 'gpu')).toBe(true);
  expect(isAnswered({ ...judged, error: 'cheat.cu:1:1: an error' }, 'gpu')).toBe(false);
});

async function expectCaught(names: readonly string[]): Promise<void> {
  const { cheats: judged } = await runCorpus({
    cheats: cheats.filter(({ name }) => names.includes(name)),
    honest: [],
    seeds: 0,
    builders: 0,
  });
  expect(judged).toHaveLength(names.length);
  const wrong = judged.filter((each) => !isAnswered(each, 'emulator'));
  expect(wrong.map(({ family, name, caught, findings }) => ({ family, name, caught, findings }))).toEqual([]);
}

test('every cheat is caught, or corpus.yaml says why not', { timeout: 600_000 }, () => expectCaught(CHEATS));

test.skipIf(missing('nvcc') && missing('clang'))(
  'a cheat that reads unwritten memory is caught',
  { timeout: 600_000 },
  () => expectCaught(CAUGHT_ON_PTX),
);

test('no honest kernel gets a finding', { timeout: 600_000 }, async () => {
  const { honest: judged } = await runCorpus({
    cheats: [],
    honest: honest.filter((each) => HONEST.includes(nameOf(each))),
    seeds: SEEDS,
    builders: 0,
  });
  expect(judged.filter(({ passed }) => !passed)).toEqual([]);
});
