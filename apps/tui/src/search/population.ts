import { Random } from '@flashcore/shared/statistics';
import type { Operator } from './protocol.ts';
import { isRight, type Trial } from './trial.ts';

/** Amounts of information for a proposer: the configurations of EvoEngineer (arXiv 2510.03760). */
export const CONFIGS = ['free', 'insight', 'full'] as const;
export type SearchConfig = (typeof CONFIGS)[number];

/** Number of thoughts from other solutions in insight and full. */
const THOUGHTS = 3;
/** Number of correct solutions required for offspring. */
const PARENTS_NEEDED = 2;
const OFFSPRING: readonly Operator[] = ['crossover', 'crossover', 'mutation', 'mutation'];

/** The starting point of a trial. */
export interface Selection {
  readonly operator: Operator;
  /** The first parent is the base. */
  readonly parents: readonly Trial[];
  readonly best: Trial;
  readonly thoughts: readonly string[];
  readonly seed: number;
}

export interface SelectionOptions {
  readonly config: SearchConfig;
  readonly population: number;
  readonly seed: number;
}

/** Sorts better trials first: by score and, for equal scores (on the emulator), by registers and shared memory. */
export function ranked(trials: readonly Trial[]): Trial[] {
  const cost = ({ evaluation }: Trial): number[] => [
    evaluation?.metrics['registers'] ?? Infinity,
    evaluation?.metrics['smem_bytes'] ?? Infinity,
  ];
  return trials.filter(isRight).toSorted((a, b) => {
    if (a.score !== b.score) return b.score - a.score;
    const [costA, costB] = [cost(a), cost(b)];
    return costA[0]! - costB[0]! || costA[1]! - costB[1]! || a.trial - b.trial;
  });
}

/** The best accepted trial; the root counts as accepted. */
export const bestOf = (trials: readonly Trial[]): Trial =>
  trials
    .filter(({ status }) => status === 'root' || status === 'accepted')
    .reduce((best, each) => (each.score > best.score ? each : best));

/**
 * Chooses operator and parents of the next trial. The choice depends only on the seed, the trial's number and the
 * trials before it, so that a killed search continues as it would have. `trials` are the earlier trials, the root
 * first.
 */
export function select(trials: readonly Trial[], { config, population, seed }: SelectionOptions): Selection {
  const number = trials.length;
  const random = new Random((Math.imul(seed, 0x9e3779b1) ^ Math.imul(number, 0x85ebca6b)) >>> 0);
  const best = bestOf(trials);
  const pool = ranked(trials).slice(0, population);
  const operator = config === 'full' && pool.length >= PARENTS_NEEDED ? OFFSPRING[number % OFFSPRING.length]! : 'init';
  const parents = parentsFor(operator, { best, pool, random });
  const others = config === 'free' ? [] : pool.filter(({ thought }) => thought !== '');
  return {
    operator,
    parents,
    best,
    thoughts: drawn(others, THOUGHTS, random).map(({ thought }) => thought),
    seed: Math.floor(random.uniform() * 2 ** 31),
  };
}

interface ParentPool {
  best: Trial;
  pool: readonly Trial[];
  random: Random;
}

function parentsFor(operator: Operator, from: ParentPool): Trial[] {
  const { best, pool, random } = from;
  if (operator === 'init') return [best];
  const chosen = drawnByRank(pool, operator === 'crossover' ? 2 : 1, random);
  return ranked(chosen);
}

/** Draws without replacement, with p proportional to 1 / (rank + N). */
function drawnByRank(pool: readonly Trial[], count: number, random: Random): Trial[] {
  const left = pool.map((trial, rank) => ({ trial, weight: 1 / (rank + 1 + pool.length) }));
  return Array.from({ length: Math.min(count, pool.length) }, () => {
    let at = random.uniform() * left.reduce((sum, { weight }) => sum + weight, 0);
    const index = left.findIndex(({ weight }) => (at -= weight) < 0);
    return left.splice(index < 0 ? left.length - 1 : index, 1)[0]!.trial;
  });
}

function drawn(pool: readonly Trial[], count: number, random: Random): Trial[] {
  const left = [...pool];
  return Array.from(
    { length: Math.min(count, pool.length) },
    () => left.splice(Math.floor(random.uniform() * left.length), 1)[0]!,
  );
}
