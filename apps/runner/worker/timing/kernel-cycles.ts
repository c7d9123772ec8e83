import type { Filling } from '../messages/profiling.ts';
import { orderOf } from './block-order.ts';
import type { Machine } from './machine.ts';
import { Multiprocessor, streamsOf } from './multiprocessor.ts';
import { operationsOf } from './operations.ts';
import type { TracedLaunch } from './trace.ts';

const CAUSAL_CTAS = 8;

/** The CTAs to trace for a launch: one, or several spread over the grid if CTAs have different numbers of keys. */
export function blocksToTrace(ctas: number, causal: boolean): { first: number; step: number; count: number } {
  if (!causal) return { first: Math.floor(ctas / 2), step: 1, count: 1 };
  return { first: 0, step: Math.max(1, Math.floor((ctas - 1) / (CAUSAL_CTAS - 1))), count: CAUSAL_CTAS };
}

/** Rounds of successive CTAs that are walked; the remaining rounds are assumed to take as long. */
const WALKED_ROUNDS = 2;

/**
 * Cycles of the busiest multiprocessor, walked step by step from a few traced CTAs. Errors: NoTimeFor if the kernel
 * uses PTX for which the model has no time.
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
  // Every CTA has a multiprocessor to itself, so the longest CTA decides.
  if (mostCtas === 1) return Math.max(...streams.map((stream) => cyclesOf([stream])));
  const walked = Math.min(mostCtas, WALKED_ROUNDS * residents);
  const chosen = Array.from({ length: walked }, (_, n) => streams[Math.floor((n * streams.length) / walked)]!);
  return (cyclesOf(chosen) * mostCtas) / walked;
}
