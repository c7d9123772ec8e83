/** How many launches a graph has and how large the memory for their inputs is. See docs/measuring.md, "Hot". */
import { isPlainAttention, type LaunchPlan } from '@flashcore/shared/kernels';

/** Bytes for the inputs of a graph's launches, which should stay in L2. */
const POOL_BYTES = 24 * 1024 ** 2;
/** Bytes for O and workspaces of a graph's launches; each launch has its own. */
const OWN_BYTES = 1024 ** 3;
/** Address alignment that TMA and vector loads require. */
const ALIGNMENT = 16;

/**
 * Whether timed launches are made from heads of attention, which have to be contiguous, and not from whole sets of
 * tensors.
 */
export const isMadeOfHeads = (timed: LaunchPlan): boolean =>
  isPlainAttention(timed) &&
  timed.tensors.filter(({ direction }) => direction === 'out').length === 1 &&
  !timed.tensors.some(({ layout }) => layout);

export interface PoolSize {
  launches: number;
  /** Heads of Q in the pool; K and V have the same number. A launch takes consecutive heads. */
  heads: number;
}

export interface WantedPool {
  /** Maximum number of launches. */
  launches: number;
  /** Batches times heads of one launch. */
  heads: number;
  /** Bytes of one head of one tensor. */
  headBytes: number;
  /** Bytes of O and workspaces of one launch. */
  ownBytes: number;
}

/**
 * No two launches of a graph have the same pair of a head of Q and a head of K and V. Each launch takes its Q and its K
 * and V from different places in the pool, and the distance between the two places differs in every launch. A pool with
 * m heads more than a launch needs allows 2 m + 1 distances. A pool takes up to POOL_BYTES, or twice what a launch
 * needs.
 */
export function poolFor({ launches, heads, headBytes, ownBytes }: WantedPool): PoolSize {
  if (headBytes % ALIGNMENT !== 0) return { launches: 1, heads };
  const most = Math.max(2 * heads, Math.floor(POOL_BYTES / (3 * headBytes)));
  const fitting = Math.max(
    1,
    Math.min(launches, 2 * (most - heads) + 1, Math.floor(OWN_BYTES / Math.max(1, ownBytes))),
  );
  return { launches: fitting, heads: heads + Math.ceil((fitting - 1) / 2) };
}

export interface WantedSlots {
  /** Maximum number of launches. */
  launches: number;
  /** Bytes of all inputs of one launch. */
  inputBytes: number;
  /** Bytes of the output and workspaces of one launch. */
  ownBytes: number;
}

/** If the inputs are too large for L2, this many launches have their inputs in memory. */
const LEAST_SLOTS = 4;

/** How many launches a graph has if each has its own copy of all inputs. */
export function slotsFor({ launches, inputBytes, ownBytes }: WantedSlots): number {
  const inCache = Math.max(LEAST_SLOTS, Math.floor(POOL_BYTES / inputBytes));
  return Math.max(1, Math.min(launches, inCache, Math.floor(OWN_BYTES / (inputBytes + ownBytes))));
}
