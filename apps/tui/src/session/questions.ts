import { FlashcoreError } from '@flashcore/shared/contract';
import { errorText } from '@flashcore/shared/text';
import type { Notice } from '../state/app-state.ts';
import type { Store } from './store.ts';

interface QuestionsOptions {
  readonly store: Store;
  /** Aborts when the session ends. */
  readonly signal: AbortSignal;
  /** Restarts an embedded runner that was killed. Returns its new label. */
  readonly revive: (() => Promise<string | void>) | undefined;
  /** Called when the runner is lost. */
  readonly onLost: () => void;
}

export const isUnreachable = (error: unknown): boolean =>
  error instanceof FlashcoreError && error.reason === 'RUNNER_UNREACHABLE';

/** Sends calls to the runner, and derives the state of the connection from answers and failures. */
export class Questions {
  readonly #store: Store;
  readonly #signal: AbortSignal;
  readonly #revive: QuestionsOptions['revive'];
  readonly #onLost: QuestionsOptions['onLost'];
  #reviving = false;

  constructor({ store, signal, revive, onLost }: QuestionsOptions) {
    this.#store = store;
    this.#signal = signal;
    this.#revive = revive;
    this.#onLost = onLost;
  }

  /** Makes one call and updates the connection's state. Returns true if the call was answered. */
  async ask(question: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    try {
      await question(this.#signal);
      this.connection('connected');
      return true;
    } catch (error) {
      if (!this.#signal.aborted) this.report(error);
      return false;
    }
  }

  connection(connection: 'connected' | 'reconnecting'): void {
    this.#store.dispatch({ type: 'connection', connection });
    if (connection !== 'reconnecting') return;
    this.#onLost();
    void this.#bringBack();
  }

  report(error: unknown, about?: Notice['about']): void {
    const unreachable = isUnreachable(error);
    if (unreachable) this.connection('reconnecting');
    // This program starts its embedded runner again, so the error's "start it again" would mislead.
    if (unreachable && this.#store.state.runner.embedded && this.#revive !== undefined) return;
    this.#tell(error, unreachable ? 'connection' : about);
  }

  /** Restarts an embedded runner that was killed. Its running jobs end as interrupted. */
  async #bringBack(): Promise<void> {
    if (this.#revive === undefined || this.#reviving || this.#signal.aborted) return;
    this.#reviving = true;
    try {
      const label = await this.#revive();
      const { runner } = this.#store.state;
      if (label !== undefined) this.#store.dispatch({ type: 'runner', runner: { ...runner, label } });
    } catch (error) {
      this.#tell(error, 'connection');
    } finally {
      this.#reviving = false;
    }
  }

  #tell(error: unknown, about: Notice['about']): void {
    const text = errorText(error);
    this.#store.dispatch({ type: 'notice', text, tone: 'bad', about });
  }
}
