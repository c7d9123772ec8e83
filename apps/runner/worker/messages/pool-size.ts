/** How many launches a graph has, and from how much memory their inputs are taken: docs/measuring.md, "Hot". */

/** Inputs of a graph's launches; they are to stay in L2. */
const POOL_BYTES = 24 * 1024 ** 2;
/** O and workspaces of a graph's launches, which each has to itself. */
const OWN_BYTES = 1024 ** 3;
/** TMA and vector loads want so much of an address. */
const ALIGNMENT = 16;

export interface PoolSize {
  launches: number;
  /** Of Q, and as many of K and V: a launch takes a row of them. */
  heads: number;
}

export interface WantedPool {
  /** So many launches at most. */
  launches: number;
  /** Batches times heads of one launch. */
  heads: number;
  /** Bytes of one head of one tensor. */
  headBytes: number;
  /** Bytes of O and workspaces of one launch. */
  ownBytes: number;
}

/**
 * No two launches of a graph have the same pair of a head of Q and a head of K and V: each takes its Q and its K and V
 * from other places of the pool, and the distance between the two is another one each time. With m heads more than a
 * launch needs there are 2 m + 1 distances. A pool takes up to POOL_BYTES, or twice what a launch needs.
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
  /** So many launches at most. */
  launches: number;
  /** Bytes of all inputs of one launch. */
  inputBytes: number;
  /** Bytes of the output and workspaces of one launch. */
  ownBytes: number;
}

/** Where inputs are too large for L2, this many launches have theirs in memory. */
const LEAST_SLOTS = 4;

/** How many launches a graph has where each has all its inputs to itself. */
export function slotsFor({ launches, inputBytes, ownBytes }: WantedSlots): number {
  const inCache = Math.max(LEAST_SLOTS, Math.floor(POOL_BYTES / inputBytes));
  return Math.max(1, Math.min(launches, inCache, Math.floor(OWN_BYTES / (inputBytes + ownBytes))));
}
