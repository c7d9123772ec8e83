/** Stopping and continuing fa-tui as a job of the user's shell: Ctrl-Z, SIGTSTP, `fg`. */
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';

// Time within which the process must have been stopped. A process group without a shell is never stopped, so SIGCONT
// would never arrive.
const STOPPED_WITHIN_MS = 100;

export interface JobControl {
  /**
   * Stops fa-tui, or its whole process group (with npx or the script that started it), until the shell continues it.
   * Before that, the terminal must be lent, or its modes restored in another way.
   */
  readonly stop: (whom: 'fa-tui' | 'group') => Promise<void>;
  readonly close: () => void;
}

export interface JobControlOptions {
  /** Called when another process sent SIGTSTP. */
  readonly onStop: () => void;
  /** Called when fa-tui runs again after SIGSTOP, in a terminal that the shell may have changed. */
  readonly onContinue: () => void;
}

/** Listens for the signals of job control. */
export function jobControl({ onStop, onContinue }: JobControlOptions): JobControl {
  const listen = (): void => {
    process.on('SIGTSTP', onStop);
    process.on('SIGCONT', onContinue);
  };
  const close = (): void => {
    process.off('SIGTSTP', onStop);
    process.off('SIGCONT', onContinue);
  };
  listen();
  return {
    stop: async (whom) => {
      // Removes the listener, because SIGTSTP stops a process only if it has none.
      close();
      const waiting = new AbortController();
      const { signal } = waiting;
      const continued = once(process, 'SIGCONT', { signal });
      process.kill(whom === 'group' ? 0 : process.pid, 'SIGTSTP');
      await Promise.race([continued, wait(STOPPED_WITHIN_MS, undefined, { signal })]);
      continued.catch(() => undefined);
      waiting.abort();
      listen();
    },
    close,
  };
}
