import type { WorkerMessage, WorkerNotice } from './messages/channel.ts';
import type { TimingModeName } from './messages/measuring.ts';

/**
 * Sends messages to the parent. Notices are awaited before a blocking call: while one runs, nothing leaves this
 * process.
 */
export interface Reporter {
  notice(notice: WorkerNotice): Promise<void>;
  /** Announces a call that may block and its limit. */
  step(what: string, limitMs: number): Promise<void>;
  /** Gives others their turn on the device; resolves when the parent lets this process go on. */
  turn(mode: TimingModeName): Promise<void>;
}

export function sendToParent(message: WorkerMessage): Promise<void> {
  return new Promise((resolve, reject) => {
    if (!process.send) {
      reject(new Error('the worker was not forked: it has no channel to a parent'));
      return;
    }
    process.send(message, undefined, {}, (error) => (error ? reject(error) : resolve()));
  });
}

let proceedWith: (() => void) | undefined;

/** The parent's answer to a turn. */
export function proceed(): void {
  proceedWith?.();
  proceedWith = undefined;
}

export const reporter: Reporter = {
  notice: sendToParent,
  step: (what, limitMs) => sendToParent({ type: 'step', what, limitMs }),
  turn: async (mode) => {
    const answered = new Promise<void>((resolve) => {
      proceedWith = resolve;
    });
    await sendToParent({ type: 'turn', mode });
    await answered;
  },
};
