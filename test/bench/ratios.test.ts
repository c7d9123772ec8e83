import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ALL_TESTS, cpuMs } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { compared, figureOf, slowed, type Bench } from './ratios.ts';

/** A bench whose measurements take so many milliseconds, the first ones of each list once. */
function bench(ours: number[], yardstick: number[]): Bench {
  const next = (values: number[]) => () => Promise.resolve(values.length > 1 ? values.shift()! : values[0]!);
  return { id: 'a', what: 'b', yardstick: 'c', measure: next(ours), measureYardstick: next(yardstick) };
}

test('figureOf() leaves the first round out, and takes the ratio of each round for itself', async () => {
  // The machine is half as fast from the third round on: no ratio changes.
  const figure = await figureOf(bench([900, 20, 20, 40, 40, 40], [1, 10, 10, 20, 20, 20]));
  expect(figure).toMatchObject({ milliseconds: 40, yardstickMilliseconds: 20, ratio: 2 });
});

test('compared() finds worse what takes 1.3 times as much in all three tries, not where one is better', async () => {
  const since = (earlier: number) => ({ ratio: 2, earlier });
  expect(await compared(bench([20], [10]), since(1.5))).toEqual({ worse: true, least: 2 });
  expect(await compared(bench([20], [10]), since(1.6))).toEqual({ worse: false, least: 2 });
  // One busy moment: the second try is as before.
  expect(await compared(bench([15], [10]), since(1.5))).toEqual({ worse: false, least: 1.5 });
});

test('work that is done twice is found, the same work is not', async () => {
  const hashing = (bytes: number) => (): Promise<number> => {
    const before = cpuMs();
    createHash('sha256').update(Buffer.alloc(bytes)).digest();
    return Promise.resolve(cpuMs() - before);
  };
  const work = { id: 'a', what: 'b', yardstick: 'c', measure: hashing(8e6), measureYardstick: hashing(4e6) };
  const { ratio: earlier } = await figureOf(work);
  const since = async (each: Bench) => compared(each, { ratio: (await figureOf(each)).ratio, earlier });
  expect(await since(work)).toMatchObject({ worse: false });
  expect(await since(slowed(work))).toMatchObject({ worse: true });
});

if (ALL_TESTS)
  test('the program: exit 0 where nothing changed, 1 where the work of one is done twice', () => {
    const folder = mkdtempSync(join(tmpdir(), 'fc-bench-'));
    const file = join(folder, 'before.json');
    const args = ['--experimental-transform-types', '--no-warnings', join(import.meta.dirname, 'main.ts')];
    const only = [...args, '--only', 'start', '--short'];
    try {
      execFileSync(process.execPath, [...only, '--out', file]);
      expect(spawnSync(process.execPath, [...only, '--compare', file]).status).toBe(0);
      const slow = spawnSync(process.execPath, [...only, '--compare', file, '--slow', 'start'], { encoding: 'utf8' });
      expect([slow.status, slow.stdout]).toEqual([1, expect.stringContaining(`worse than in ${file}: start`)]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  }, 120_000);
