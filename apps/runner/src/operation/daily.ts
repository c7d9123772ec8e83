import { FlashcoreError } from '@flashcore/shared/contract';
import type { Logger } from '../log.ts';
import { applyRetention, type RetentionOptions, type RetentionPolicy } from './retention.ts';

const DAY_MS = 24 * 3600 * 1000;

/** Applies the policy at once, then daily, unless it keeps everything. Returns a function that stops this. */
export function retainDaily(
  options: Omit<RetentionOptions, 'dryRun' | 'inUseSinceMs' | 'nowMs'>,
  { inUseSinceMs, logger }: { inUseSinceMs: () => number | undefined; logger: Logger },
): () => void {
  if (keepsAll(options.policy)) return () => undefined;
  const clean = (): void => {
    applyRetention({ ...options, dryRun: false, inUseSinceMs: inUseSinceMs() }).then(
      (removed) => logger.info({ removed }, 'retention'),
      (error: unknown) =>
        logger.error(
          { err: error, ...(error instanceof FlashcoreError && { reason: error.reason }) },
          'retention failed',
        ),
    );
  };
  clean();
  const timer = setInterval(clean, DAY_MS);
  return () => clearInterval(timer);
}

const keepsAll = (policy: RetentionPolicy): boolean => Object.values(policy).every((limit) => limit === Infinity);
