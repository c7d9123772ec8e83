import { errorText } from '@flashcore/shared/text';
import type { Notice } from '../state/app-state.ts';
import type { Store } from './store.ts';

interface QuestionsOptions {
  readonly store: Store;
  /** Aborted when the session ends. */
  readonly signal: AbortSignal;
  /** Brings back an embedded runner that was killed. */
  readonly revive: (() => Promise<void>) | undefined;
}

/** Questions to the runner, and what their answers and failures say of the connection. */
export class Questions {
  readonly #store: Store;
  readonly #signal: AbortSignal;
  readonly #revive: QuestionsOptions['revive'];
  #reviving = false;

  constructor({ store, signal, revive }: QuestionsOptions) {
    this.#store = store;
    this.#signal = signal;
    this.#revive = revive;
  }

  /** One question; its answer or failure says whether the runner is there. Gives whether it was answered. */
  async ask(question: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    try {
      await question(this.#signal);
      this.#store.dispatch({ type: 'connection', connection: 'connected' });
      return true;
    } catch (error) {
      if (!this.#signal.aborted) this.report(error);
      return false;
    }
  }

  connection(connection: 'connected' | 'reconnecting'): void {
    this.#store.dispatch({ type: 'connection', connection });
    if (connection === 'reconnecting') void this.#bringBack();
  }

  report(error: unknown, about?: Notice['about']): void {
    const unreachable = error instanceof Error && 'reason' in error && error.reason === 'RUNNER_UNREACHABLE';
    if (unreachable) this.connection('reconnecting');
    this.#tell(error, unreachable ? 'connection' : about);
  }

  /** An embedded runner that was killed is started again; what it was running ends as interrupted. */
  async #bringBack(): Promise<void> {
    if (this.#revive === undefined || this.#reviving || this.#signal.aborted) return;
    this.#reviving = true;
    try {
      await this.#revive();
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
