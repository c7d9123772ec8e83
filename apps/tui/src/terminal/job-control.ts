/** Stopping and continuing fa-tui as a job of the user's shell: Ctrl-Z, SIGTSTP, `fg`. */
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';

// A process group whose shell is gone is never stopped, so SIGCONT never arrives.
const STOPPED_WITHIN_MS = 100;

export interface JobControl {
  /**
   * Stops fa-tui, or its whole process group (npx and scripts that started it), until the shell continues it. The
   * terminal must be lent, or its modes must be restored in another way.
   */
  readonly stop: (whom: 'fa-tui' | 'group') => Promise<void>;
  readonly close: () => void;
}

export interface JobControlOptions {
  /** Another process sent SIGTSTP. */
  readonly onStop: () => void;
  /** fa-tui was stopped by SIGSTOP and runs again, in a terminal that the shell may have changed. */
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
      // Without a listener, SIGTSTP stops the process.
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
