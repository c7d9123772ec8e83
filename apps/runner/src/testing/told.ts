/** Reads a gateway's attempts from a job's events. */
import type { JobEvent } from '@flashcore/shared/contract';

/** "2: its Slurm job has ended": each attempt with the reason why it was necessary. */
export const attempts = (events: readonly JobEvent[]): string[] =>
  events.flatMap(({ payload }) =>
    payload.case === 'attemptStarted' ? [`${payload.value.attempt}: ${payload.value.reason ?? ''}`] : [],
  );

export const warnings = (events: readonly JobEvent[]): string[] =>
  events.flatMap(({ payload }) => (payload.case === 'warning' ? [payload.value.message] : []));

export const isGapless = (events: readonly JobEvent[]): boolean =>
  events.every(({ sequence }, index) => Number(sequence) === index + 1);
