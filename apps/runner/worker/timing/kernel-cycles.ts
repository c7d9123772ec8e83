import type { Filling } from '../messages/profiling.ts';
import { orderOf } from './block-order.ts';
import type { Machine } from './machine.ts';
import { Multiprocessor, streamsOf } from './multiprocessor.ts';
import { operationsOf } from './operations.ts';
import type { TracedLaunch } from './trace.ts';

const CAUSAL_CTAS = 8;

/** The CTAs of a launch that stand for the others: one, or where they have different numbers of keys some of each. */
export function blocksToTrace(ctas: number, causal: boolean): { first: number; step: number; count: number } {
  if (!causal) return { first: Math.floor(ctas / 2), step: 1, count: 1 };
  return { first: 0, step: Math.max(1, Math.floor((ctas - 1) / (CAUSAL_CTAS - 1))), count: CAUSAL_CTAS };
}

/** Of CTAs that follow one another, as many rounds are walked; the rest take as long. */
const WALKED_ROUNDS = 2;

/**
 * Cycles of the multiprocessor that has most to do, walked step by step from a few traced CTAs. Errors: NoTimeFor where
 * the kernel uses PTX that the model has no time for.
 */
export function kernelCycles(launch: TracedLaunch, machine: Machine, filling: Filling): number {
  const { statements, blocks } = launch;
  const { ctas, multiprocessors, residents, registers } = filling;
  if (blocks.length === 0) throw new RangeError('a trace without a block');
  const operations = operationsOf(launch, machine);
  const program = { operations, order: orderOf(statements, operations, registers), machine };
  const streams = blocks.map((warps) => streamsOf(program, warps));
  const cyclesOf = (chosen: typeof streams): number => new Multiprocessor(program).run(chosen, residents);
  const mostCtas = Math.ceil(ctas / multiprocessors);
  // Each has its own multiprocessor: the longest counts.
  if (mostCtas === 1) return Math.max(...streams.map((stream) => cyclesOf([stream])));
  const walked = Math.min(mostCtas, WALKED_ROUNDS * residents);
  const chosen = Array.from({ length: walked }, (_, n) => streams[Math.floor((n * streams.length) / walked)]!);
  return (cyclesOf(chosen) * mostCtas) / walked;
}
