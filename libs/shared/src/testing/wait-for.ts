import { setTimeout as sleep } from 'node:timers/promises';

const LOOK_EVERY_MS = 10;

/**
 * Polls `probe` until it returns a value, and returns that value. Throws after `timeoutMs` with an error that names
 * `what`.
 */
export async function waitFor<T>(
  what: string,
  probe: () => T | undefined | Promise<T | undefined>,
  timeoutMs = 20_000,
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const found = await probe();
    if (found !== undefined) return found;
    if (performance.now() > deadline) throw new Error(`Waited ${timeoutMs} ms for ${what}`);
    // eslint-disable-next-line flashcore/no-fixed-wait -- between two probes: the only place where tests wait
    await sleep(LOOK_EVERY_MS);
  }
}

/** Waits until a condition holds. Throws after a minute. */
export async function until(condition: () => boolean | Promise<boolean>, what = String(condition)): Promise<void> {
  await waitFor(what, async () => (await condition()) || undefined, 60_000);
}

/** Time limit for a runner's first answer on a busy machine. Users learn sooner that there is no answer. */
export const PATIENT_MS = 30_000;
