/**
 * Wakes those who wait for a job's next event. It carries no events: watchers read them from the log, so a slow one
 * costs no memory.
 */
export class EventFeed {
  readonly #waiting = new Map<number, Set<() => void>>();

  /** Says that a job's log has grown. */
  notify(jobId: number): void {
    const waiting = this.#waiting.get(jobId);
    if (!waiting) return;
    this.#waiting.delete(jobId);
    for (const wake of waiting) wake();
  }

  /** Resolves at the next notify() of the job, or when the signal is aborted. */
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
