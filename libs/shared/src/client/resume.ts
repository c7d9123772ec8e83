/** Decides when and how often a dropped stream is resumed. */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, type ServiceError, status } from '@grpc/grpc-js';
import { errorFromStatus, hasErrorDetails } from '../contract/error-status.ts';
import { type ErrorReasonName, FlashcoreError } from '../contract/errors.ts';

const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 3_000;
const GIVE_UP_AFTER_MS = 60_000;
const CONNECT_TIMEOUT_MS = 5_000;
/**
 * A stream that lived this long had reached a working runner; the time until giving up then counts from the stream's
 * end.
 */
const SETTLED_AFTER_MS = 5_000;

export type ConnectionState = 'connected' | 'reconnecting';

export interface ResumeOptions {
  /** Ends the stream with the signal's reason; the job continues. */
  signal?: AbortSignal | undefined;
  /** Called when the stream drops and when it is back. */
  onConnection?: ((state: ConnectionState) => void) | undefined;
  /** How long to try to reach a lost runner again before RUNNER_UNREACHABLE; default 60 s. */
  giveUpAfterMs?: number | undefined;
}

// The codes of a cut connection or a stopped server. A status that the runner itself sends carries details and is an
// answer.
const DROP_CODES: ReadonlySet<status> = new Set([
  status.UNAVAILABLE,
  status.CANCELLED,
  status.INTERNAL,
  status.UNKNOWN,
]);

/** The part of a grpc-js Client that a policy uses. */
type Channel = Pick<Client, 'waitForReady'>;

export class ResumePolicy {
  readonly #channel: Channel;
  readonly #address: string;
  readonly #options: ResumeOptions;
  #state: ConnectionState = 'connected';
  #attempts = 0;
  #lostSince: number | undefined;
  #connectedSince: number | undefined;

  constructor(channel: Channel, address: string, options: ResumeOptions) {
    this.#channel = channel;
    this.#address = address;
    this.#options = options;
  }

  /** The runner answered, with headers or a message. */
  connected(): void {
    this.#connectedSince ??= performance.now();
    this.#tell('connected');
  }

  /** A message arrived. */
  progress(): void {
    this.connected();
    this.#attempts = 0;
    this.#lostSince = undefined;
  }

  /**
   * Returns when the next attempt is due and the channel is connected. Throws if there must be no further attempt: the
   * signal was aborted, the runner has answered, or there was no connection for too long. `cause` is undefined if the
   * stream simply ended.
   */
  async waitAfter(cause: unknown, subject: string): Promise<void> {
    const { signal, giveUpAfterMs = GIVE_UP_AFTER_MS } = this.#options;
    signal?.throwIfAborted();
    if (cause !== undefined && !isDrop(cause)) throw isServiceError(cause) ? errorFromStatus(cause) : (cause as Error);
    if (this.#connectedSince !== undefined && performance.now() - this.#connectedSince > SETTLED_AFTER_MS)
      this.#lostSince = undefined;
    this.#connectedSince = undefined;
    this.#lostSince ??= performance.now();
    this.#tell('reconnecting');
    for (let problem = cause; ;) {
      const left = this.#lostSince + giveUpAfterMs - performance.now();
      if (left <= 0) throw lost(this.#address, subject, giveUpAfterMs, problem);
      await abortable(sleep(Math.min(this.#nextDelayMs(), left), undefined, { signal }), signal);
      problem = await abortable(connectionProblem(this.#channel, Math.min(CONNECT_TIMEOUT_MS, left)), signal);
      if (problem === undefined) return;
    }
  }

  /** The delay doubles with every attempt; jitter spreads the many watchers of a restarted runner. */
  #nextDelayMs(): number {
    return Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** this.#attempts++) * (0.5 + Math.random() / 2);
  }

  #tell(state: ConnectionState): void {
    if (state === this.#state) return;
    this.#state = state;
    this.#options.onConnection?.(state);
  }
}

/**
 * Waits until the channel is connected; returns the problem if it is not connected in time. A call on a channel that is
 * still connecting could wait forever, because grpc-js has no time limit for the handshake of a frozen runner.
 */
function connectionProblem(channel: Channel, timeoutMs: number): Promise<Error | undefined> {
  return new Promise((resolve) => channel.waitForReady(Date.now() + timeoutMs, resolve));
}

/** The promise's result, or the signal's reason as soon as it is aborted. */
async function abortable<Result>(promise: Promise<Result>, signal: AbortSignal | undefined): Promise<Result> {
  if (signal === undefined) return promise;
  const done = new AbortController();
  const aborted = once(signal, 'abort', { signal: done.signal }).then(() => {
    throw signal.reason;
  });
  // If the promise settles first, nothing handles the pending abort's rejection.
  aborted.catch(() => undefined);
  try {
    return await Promise.race([promise, aborted]);
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    done.abort();
  }
}

export const isServiceError = (error: unknown): error is ServiceError =>
  error instanceof Error && 'code' in error && typeof error.code === 'number' && 'metadata' in error;

/** The runner's reasons for ending a stream before the job's end. A draining runner comes back. */
const COMES_BACK: readonly ErrorReasonName[] = ['DRAINING', 'STREAM_ENDED'];
/** grpc-js' text for ENHANCE_YOUR_CALM, the code of a stream that a runner resets because nobody reads it. */
const RESET = /^Bandwidth exhausted or memory limit exceeded/;

/** Whether the connection or the stream failed, rather than the request. */
function isDrop(error: unknown): boolean {
  if (!isServiceError(error)) return false;
  if (hasErrorDetails(error)) return COMES_BACK.includes(errorFromStatus(error).reason);
  return DROP_CODES.has(error.code) || (error.code === status.RESOURCE_EXHAUSTED && RESET.test(error.details));
}

function lost(address: string, subject: string, afterMs: number, cause: unknown): FlashcoreError {
  const why = cause instanceof Error ? ` (${cause.message})` : '';
  return new FlashcoreError(
    'RUNNER_UNREACHABLE',
    { address, subject },
    `Lost the runner at ${address} while reading ${subject}, and could not reach it again within ${(afterMs / 1000).toFixed(0)} s${why}: a job goes on there while the runner lives, so watch it again once the runner is reachable`,
    { cause },
  );
}
