import type { WorkerMessage, WorkerNotice } from './messages/channel.ts';
import type { TimingModeName } from './messages/measuring.ts';

/**
 * Sends messages to the parent. Notices are awaited before a blocking call, because nothing leaves this process during
 * one.
 */
export interface Reporter {
  notice(notice: WorkerNotice): Promise<void>;
  /** Announces a call that may block, with its limit. */
  step(what: string, limitMs: number): Promise<void>;
  /** Gives another measurement a turn on the device; resolves when the parent lets this process continue. */
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

/** Called when the parent answers a turn. */
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
