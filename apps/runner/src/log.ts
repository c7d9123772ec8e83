import { pino, type Logger } from 'pino';

export type { Logger };

/** The daemon's log: one JSON object a line on stderr, with the job's name where there is one. Level: $FLASHCORE_LOG_LEVEL, else "info". */
export function createLogger(level = process.env['FLASHCORE_LOG_LEVEL'] ?? 'info'): Logger {
  return pino({ level, base: { pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime }, pino.destination({ fd: 2, sync: true }));
}
