/**
 * Wakes callers that wait for a job's next event. The feed carries no events: watchers read them from the log, so a
 * slow watcher costs no memory.
 */
export class EventFeed {
  readonly #waiting = new Map<number, Set<() => void>>();

  /** Wakes the waiters because the job's log has grown. */
  notify(jobId: number): void {
    const waiting = this.#waiting.get(jobId);
    if (!waiting) return;
    this.#waiting.delete(jobId);
    for (const wake of waiting) wake();
  }

  /** Resolves at the job's next notify(), or when the signal is aborted. */
  next(jobId: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(jobId) ?? new Set();
      this.#waiting.set(jobId, waiting);
      const wake = (): void => {
        signal.removeEventListener('abort', wake);
        waiting.delete(wake);
        if (waiting.size === 0 && this.#waiting.get(jobId) === waiting) this.#waiting.delete(jobId);
        resolve();
      };
      waiting.add(wake);
      signal.addEventListener('abort', wake, { once: true });
    });
  }
}
