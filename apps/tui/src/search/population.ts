import { Random } from '@flashcore/shared/statistics';
import type { Operator } from './protocol.ts';
import { isRight, type Trial } from './trial.ts';

/** The amounts of information that a proposer can get: the configurations of EvoEngineer (arXiv 2510.03760). */
export const CONFIGS = ['free', 'insight', 'full'] as const;
export type SearchConfig = (typeof CONFIGS)[number];

/** Number of other solutions' thoughts that a proposer gets in insight and full. */
const THOUGHTS = 3;
/** Number of correct solutions without which there are no offspring. */
const PARENTS_NEEDED = 2;
const OFFSPRING: readonly Operator[] = ['crossover', 'crossover', 'mutation', 'mutation'];
/** Rounds between migrations; in a round every island has one trial. */
const MIGRATE_EVERY = 5;
const REGISTERS_STEP = 32;

/** The operator and the parents of a trial, and the other inputs of its proposal. */
export interface Selection {
  readonly operator: Operator;
  /** The first parent is the base. */
  readonly parents: readonly Trial[];
  readonly best: Trial;
  readonly thoughts: readonly string[];
  readonly seed: number;
}

interface SelectionOptions {
  readonly config: SearchConfig;
  readonly population: number;
  readonly seed: number;
  readonly islands: number;
}

/** The island that makes a trial, from 1: islands take turns. Trial 0 belongs to all. */
export const islandOf = (trial: number, islands: number): number => ((trial - 1) % islands) + 1;

/**
 * Number of trials, counted from trial 0, whose results a trial's proposal may depend on: every trial except the latest
 * one of each other island. These may still be in flight, and are ignored even if they have ended, so that decisions do
 * not depend on timing.
 */
export const knownBefore = (trial: number, islands: number): number => Math.max(1, trial - islands + 1);

/**
 * Trials that each island builds on: trial 0, the island's own trials and its guests. After every MIGRATE_EVERY rounds,
 * the best trial of each island joins the next island as a guest; the last island's joins the first. `trials` begins
 * with trial 0.
 */
export function islandsOf(trials: readonly Trial[], islands: number): Trial[][] {
  const members = Array.from({ length: islands }, () => trials.slice(0, 1));
  for (const trial of trials.slice(1)) {
    members[islandOf(trial.trial, islands) - 1]!.push(trial);
    if (islands > 1 && trial.trial % (islands * MIGRATE_EVERY) === 0) migrate(members);
  }
  return members;
}

function migrate(members: Trial[][]): void {
  const leaders = members.map((own) =>
    own.filter(isRight).reduce((best, each) => (order(best, each) <= 0 ? best : each)),
  );
  members.forEach((own, index) => {
    const guest = leaders.at(index - 1)!;
    if (!own.includes(guest)) own.push(guest);
  });
}

/**
 * The cell of the archive that a correct trial competes in: registers and shared memory decide how many CTAs fit. A
 * host without ptxas reports no registers.
 */
export function cellOf({ evaluation }: Trial): string {
  const { registers, smem_bytes: smem } = evaluation?.metrics ?? {};
  if (registers === undefined || smem === undefined) return 'registers not known';
  const upTo = Math.ceil(registers / REGISTERS_STEP) * REGISTERS_STEP;
  const kib = smem === 0 ? 0 : 2 ** Math.max(0, Math.ceil(Math.log2(smem / 1024)));
  return `up to ${upTo} registers, ${kib === 0 ? 'no' : `up to ${kib} KiB of`} shared memory`;
}

/** The archive: the best correct trial of every cell, best first. */
export function elitesOf(trials: readonly Trial[]): Trial[] {
  const elites = new Map<string, Trial>();
  for (const trial of ranked(trials)) if (!elites.has(cellOf(trial))) elites.set(cellOf(trial), trial);
  return [...elites.values()];
}

/** The elites; if they are fewer than `population`, also the best of the other trials. */
function poolOf(trials: readonly Trial[], population: number): Trial[] {
  const elites = elitesOf(trials);
  const others = ranked(trials).filter((trial) => !elites.includes(trial));
  return ranked([...elites, ...others].slice(0, population));
}

/**
 * The correct trials, best first: by score, and if scores are equal (as on the emulator) by registers and shared
 * memory.
 */
export const ranked = (trials: readonly Trial[]): Trial[] => trials.filter(isRight).toSorted(order);

/** Negative if `a` is better than `b`. */
function order(a: Trial, b: Trial): number {
  if (a.score !== b.score) return b.score - a.score;
  const [costA, costB] = [costOf(a), costOf(b)];
  return costA[0]! - costB[0]! || costA[1]! - costB[1]! || a.trial - b.trial;
}

const costOf = ({ evaluation }: Trial): number[] => [
  evaluation?.metrics['registers'] ?? Number.MAX_VALUE,
  evaluation?.metrics['smem_bytes'] ?? Number.MAX_VALUE,
];

/** The best accepted trial; the root counts as accepted. `trials` contains the root. */
export const bestOf = (trials: readonly Trial[]): Trial =>
  trials
    .filter(({ status }) => status === 'root' || status === 'accepted')
    .reduce((best, each) => (each.score > best.score ? each : best));

/**
 * Chooses the operator and the parents of a trial from its island. The choice depends only on the seed, the trial's
 * number and `known`, the trials that knownBefore() allows, so that a killed search continues as it would have.
 */
export function select(
  number: number,
  known: readonly Trial[],
  { config, population, seed, islands }: SelectionOptions,
): Selection {
  const random = new Random((Math.imul(seed, 0x9e3779b1) ^ Math.imul(number, 0x85ebca6b)) >>> 0);
  const trials = islandsOf(known, islands)[islandOf(number, islands) - 1]!;
  const best = bestOf(trials);
  const pool = poolOf(trials, population);
  const round = Math.ceil(number / islands);
  const operator = config === 'full' && pool.length >= PARENTS_NEEDED ? OFFSPRING[round % OFFSPRING.length]! : 'init';
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
