/** When and how often a dropped stream is taken up again. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type ServiceError, status } from '@grpc/grpc-js';
import { errorFromStatus, hasErrorDetails } from './error-status.ts';
import { FlashcoreError } from './errors.ts';

const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 3_000;
const GIVE_UP_AFTER_MS = 60_000;
/** A stream that lived this long had reached a working runner: giving up counts from its end. */
const SETTLED_AFTER_MS = 5_000;

export type ConnectionState = 'connected' | 'reconnecting';

export interface ResumeOptions {
  /** Ends the stream with the signal's reason; the job goes on. */
  signal?: AbortSignal | undefined;
  /** Told when the stream dropped, and when it is there again. */
  onConnection?: ((state: ConnectionState) => void) | undefined;
  /** How long to try to reach a lost runner again before RUNNER_UNREACHABLE; default 60 s. */
  giveUpAfterMs?: number | undefined;
}

// What a cut connection or a stopped server shows; a runner's own statuses carry details and are answers.
const DROP_CODES: ReadonlySet<status> = new Set([status.UNAVAILABLE, status.CANCELLED, status.INTERNAL, status.UNKNOWN]);

export class ResumePolicy {
  readonly #options: ResumeOptions;
  #state: ConnectionState = 'connected';
  #attempts = 0;
  #lostSince: number | undefined;
  #connectedSince: number | undefined;

  constructor(options: ResumeOptions) {
    this.#options = options;
  }

  /** The runner answered, with headers or a message. */
  connected(): void {
    this.#connectedSince ??= Date.now();
    this.#tell('connected');
  }

  /** A message came. */
  progress(): void {
    this.connected();
    this.#attempts = 0;
    this.#lostSince = undefined;
  }

  /** Waits before the next attempt, or throws when there must be none: aborted, an answer of the runner, no stream for too long. `cause` is undefined when the stream just ended. */
  async waitAfter(cause: unknown, { address, subject }: { address: string; subject: string }): Promise<void> {
    this.#options.signal?.throwIfAborted();
    if (cause !== undefined && !isDrop(cause)) throw isServiceError(cause) ? errorFromStatus(cause) : cause;
    const settled = this.#connectedSince !== undefined && Date.now() - this.#connectedSince > SETTLED_AFTER_MS;
    if (settled) this.#lostSince = undefined;
    this.#connectedSince = undefined;
    this.#lostSince ??= Date.now();
    const giveUpAfterMs = this.#options.giveUpAfterMs ?? GIVE_UP_AFTER_MS;
    const left = this.#lostSince + giveUpAfterMs - Date.now();
    if (left <= 0) throw lost(address, subject, giveUpAfterMs, cause);
    this.#tell('reconnecting');
    const delay = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** this.#attempts++, left);
    // Jitter keeps many watchers of a restarted runner apart.
    await sleep(delay * (0.5 + Math.random() / 2), undefined, { signal: this.#options.signal }).catch((error: unknown) => {
      this.#options.signal?.throwIfAborted();
      throw error;
    });
  }

  #tell(state: ConnectionState): void {
    if (state === this.#state) return;
    this.#state = state;
    this.#options.onConnection?.(state);
  }
}

export const isServiceError = (error: unknown): error is ServiceError => error instanceof Error && 'code' in error && typeof error.code === 'number' && 'metadata' in error;

/** Whether the connection failed rather than the request; a draining runner comes back. */
function isDrop(error: unknown): boolean {
  if (!isServiceError(error)) return false;
  return hasErrorDetails(error) ? errorFromStatus(error).reason === 'DRAINING' : DROP_CODES.has(error.code);
}

function lost(address: string, subject: string, afterMs: number, cause: unknown): FlashcoreError {
  const why = cause instanceof Error ? ` (${cause.message})` : '';
  return new FlashcoreError('RUNNER_UNREACHABLE', { address, subject },
    `Lost the runner at ${address} while reading ${subject}, and could not reach it again within ${(afterMs / 1000).toFixed(0)} s${why}: a job goes on there while the runner lives, so watch it again once the runner is reachable`, { cause });
}
