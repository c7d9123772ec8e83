/**
 * Tests that run many random rounds: few in `npm run test:all`, and all in `npx nx soak test`.
 * Every failure names the seed that repeats it.
 */
import { appendFileSync, lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Random } from '@flashcore/shared/statistics';
import { test } from 'vitest';
import type { PromiseId } from './promises.ts';

const SOAK = process.env['FLASHCORE_SOAK'] === '1';
/** FLASHCORE_ROUNDS replaces the number of rounds, to run a single campaign at any length. */
const ROUNDS = Number(process.env['FLASHCORE_ROUNDS'] ?? 0);
/** FLASHCORE_MINUTES: the length of soak tests that run for a given time. */
export const MINUTES = Number(process.env['FLASHCORE_MINUTES'] ?? 2);
/** FLASHCORE_SEED repeats a run. The same seed gives the same rounds, but not the same scheduling of processes. */
const SEED = Number(process.env['FLASHCORE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

export interface Campaign {
  seed: number;
  random: Random;
  rounds: number;
  soak: boolean;
  /** Records a figure for docs/reliability.md: a description of what was counted, and the result. */
  figure: (what: string, value: string) => void;
}

/** Number of rounds of a campaign. */
export interface Rounds {
  /** Rounds in `npm run test:all`. */
  ci: number;
  soak: number;
}

export interface CampaignOptions {
  /** The promise that the campaign tests. */
  promise: PromiseId;
  rounds: Rounds;
  /** Limit on the campaign's time outside the soak, in minutes; default: 5. */
  minutes?: number;
  /** True if something that the campaign needs is missing. */
  skip?: boolean;
}

/**
 * A vitest test whose body gets random numbers and its number of rounds. The time limit leaves room for other work on
 * the machine. In the soak the limit is an hour plus the given minutes.
 */
export function campaign(
  name: string,
  { promise, rounds, minutes = 5, skip = false }: CampaignOptions,
  body: (campaign: Campaign) => Promise<void>,
): void {
  test.skipIf(skip)(name, { timeout: (SOAK ? 60 + MINUTES : minutes) * 60_000 }, async () => {
    const figure = (what: string, value: string): void => record({ promise, test: name, what, value });
    try {
      await body({
        seed: SEED,
        random: new Random(SEED),
        rounds: ROUNDS || (SOAK ? rounds.soak : rounds.ci),
        soak: SOAK,
        figure,
      });
    } catch (cause) {
      throw new Error(
        `${(cause as Error).message}\n  (repeat it with FLASHCORE_SEED=${SEED}${SOAK ? ' FLASHCORE_SOAK=1' : ''})`,
        { cause },
      );
    }
  });
}

export interface Figure {
  promise: PromiseId;
  test: string;
  what: string;
  value: string;
  seed: number;
}

/** Appends a figure to the file that the soak names. `npm run test:all` records no figures. */
function record(figure: Omit<Figure, 'seed'>): void {
  const file = process.env['FLASHCORE_FIGURES'];
  if (file) appendFileSync(file, `${JSON.stringify({ ...figure, seed: SEED } satisfies Figure)}\n`);
}

export const integer = (random: Random, least: number, most: number): number =>
  least + Math.floor(random.uniform() * (most - least + 1));
export const pick = <Value>(random: Random, values: readonly Value[]): Value =>
  values[integer(random, 0, values.length - 1)]!;

/** Names, sizes and times of everything in these folders, except a daemon's data folder and its sockets. */
export const besideData = (folders: readonly string[]): string[] =>
  folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((path) => !/^(?:data|p|s)(?:\/|$)/.test(path))
      .map((path) => {
        const { size, mtimeMs, mode } = lstatSync(join(folder, path));
        return `${path} ${size} ${mtimeMs} ${mode}`;
      })
      .toSorted(),
  );

/** A UUID from a seeded generator. */
export function seededUuid(random: Random): string {
  const digits = Array.from({ length: 32 }, () => integer(random, 0, 15).toString(16)).join('');
  return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-4${digits.slice(13, 16)}-8${digits.slice(17, 20)}-${digits.slice(20)}`;
}

/** The p-th quantile of sorted values by nearest rank. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(part * sorted.length) - 1)] ?? Number.NaN;
}

/** Runs a task for each item, at most this many at the same time. The first failure ends all of them. */
export async function inLanes<Item>(
  lanes: number,
  items: readonly Item[],
  task: (item: Item) => Promise<void>,
): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < items.length) await task(items[next++]!);
  };
  await Promise.all(Array.from({ length: Math.min(lanes, items.length) }, lane));
}
