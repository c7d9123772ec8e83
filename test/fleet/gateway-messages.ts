/** Messages between a gateway's process and the program that measures it. */
export type FromGateway =
  | { type: 'serves'; address: string }
  /** The scheduler should start a pilot. */
  | { type: 'pilot'; token: string }
  | { type: 'use'; rssMib: number; cpuMs: number };

export type ToGateway = { type: 'use' } | { type: 'end' };
