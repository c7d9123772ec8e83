import { pino, type Logger } from 'pino';

export type { Logger };

/**
 * The daemon's log: one JSON object a line on stderr, with the job's name where there is one.
 */
export function createLogger(level: string): Logger {
  const stderr = pino.destination({ fd: 2, sync: true });
  // Nobody reads stderr any more (EPIPE): the jobs go on all the same.
  stderr.on('error', () => undefined);
  return pino({ level, base: { pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime }, stderr);
}
