/** Waits with a limit. The awaited work continues even if its waiter has given up. */

/** The result of some work, or undefined if it takes longer. Errors: the work's. */
export async function within<Value>(work: Promise<Value>, ms: number): Promise<Value | undefined> {
  const timeout = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => timeout.resolve(undefined), ms);
  try {
    return await Promise.race([work, timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Whether some work ended in time. Errors: the work's. */
export async function endsWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  return (
    (await within(
      work.then(() => true),
      ms,
    )) ?? false
  );
}

/** A promise's result, or the signal's reason if the signal is aborted before the promise settles. */
export async function untilAborted<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  // Prevents an unhandled rejection if nobody else awaits the work.
  work.catch(() => undefined);
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(signal.reason as Error);
  signal.addEventListener('abort', onAbort);
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** Waits without keeping the process alive. */
export async function pause(ms: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  setTimeout(resolve, ms).unref();
  await promise;
}
