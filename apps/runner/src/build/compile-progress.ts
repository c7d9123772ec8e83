/** Tells from time to time which of several compilations have not ended, so that nobody takes minutes for a hang. */
const TELL_EVERY_MS = 10_000;

interface CompileProgressParts {
  say: (text: string) => void;
  everyMs?: number;
}

export class CompileProgress {
  readonly #say: (text: string) => void;
  readonly #everyMs: number;
  /** Names of the running compilations, the earliest first. */
  readonly #open: string[] = [];
  #count = 0;
  #startedAt = 0;
  #hasTold = false;
  #timer: NodeJS.Timeout | undefined;

  constructor({ say, everyMs = TELL_EVERY_MS }: CompileProgressParts) {
    this.#say = say;
    this.#everyMs = everyMs;
  }

  /** Counts a compilation until it ends. It may be that of another job or process, for whose end it waits. */
  async follow<Result>(name: string, compilation: Promise<Result>): Promise<Result> {
    if (this.#open.length === 0) this.#begin();
    this.#count += 1;
    this.#open.push(name);
    try {
      return await compilation;
    } finally {
      this.#open.splice(this.#open.indexOf(name), 1);
      if (this.#open.length === 0) this.#end();
    }
  }

  #begin(): void {
    this.#count = 0;
    this.#hasTold = false;
    this.#startedAt = performance.now();
    this.#timer = setInterval(() => this.#tell(), this.#everyMs).unref();
  }

  #tell(): void {
    this.#hasTold = true;
    const done = this.#count - this.#open.length;
    this.#say(`compiling ${this.#open.join(', ')}: ${done} of ${this.#count} done, ${this.#seconds()} s`);
  }

  #end(): void {
    clearInterval(this.#timer);
    if (this.#hasTold) this.#say(`compilations: ${this.#count} of ${this.#count} done, ${this.#seconds()} s`);
  }

  #seconds(): number {
    return Math.round((performance.now() - this.#startedAt) / 1000);
  }
}
